"""Resource requirements of a job (Flink's JobResourceRequirements), and the rescales that follow from them."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("rescaling.vertex_requirements")
class JobVertexResourceRequirements(Value):
    """The bounds of a vertex's parallelism."""

    vertex_id: JobVertexId
    lower_bound: int
    upper_bound: int


@value("rescaling.requirements")
class JobResourceRequirements(Value):
    """The bounds of the vertices of a job, each vertex once."""

    vertices: tuple[JobVertexResourceRequirements, ...] = ()


@message("rescaling.update_requirements")
class UpdateJobResourceRequirements(Message):
    """client -> JobManager -> JobMaster: set the bounds of these vertices. Other vertices keep theirs.

    The reply is `JobResourceRequirementsUpdated` when the bounds are stored, after which the job is rescaled, or
    `JobResourceRequirementsRefused`.
    """

    job_id: JobId
    client: Ref
    requirements: JobResourceRequirements


@message("rescaling.request_requirements")
class RequestJobResourceRequirements(Message):
    """client -> JobManager -> JobMaster: return the bounds of all vertices. The replies are those of an update."""

    job_id: JobId
    client: Ref


@message("rescaling.requirements_updated")
class JobResourceRequirementsUpdated(Message):
    """JobMaster -> JobManager -> client: these are the bounds of all vertices, which outlive the JobMaster.

    `is_new` is False if this is the reply to a `RequestJobResourceRequirements`.
    """

    job_id: JobId
    client: Ref
    requirements: JobResourceRequirements
    is_new: bool = False


@message("rescaling.requirements_refused")
class JobResourceRequirementsRefused(Message):
    """JobMaster or JobManager -> client: the bounds of the job are unchanged."""

    job_id: JobId
    client: Ref
    cause: SerializedThrowable


@message("rescaling.requirements_stored")
class JobResourceRequirementsStored(Message):
    """store -> JobMaster: the bounds are stored for the job's next JobMaster. `cause` is set if storing failed."""

    requirements: JobResourceRequirements
    cause: SerializedThrowable | None = None


@message("rescaling.slots_due")
class CountSlotsDue(Message):
    """JobMaster's timer -> itself: ask the ResourceManager how many slots there are for the job."""


@message("rescaling.resource_wait_over")
class ResourceWaitTimedOut(Message):
    """JobMaster's timer -> itself: the job has waited too long for slots. `number` identifies the wait."""

    number: int


@value("rescaling.vertex_parallelism")
class VertexParallelismInfo(Value):
    """The parallelism of a vertex."""

    vertex_id: JobVertexId
    parallelism: int


@message("rescaling.parallelism_changed")
class JobParallelismChanged(Message):
    """JobMaster -> listeners: the vertices now have this parallelism. All former attempts have ended."""

    job_id: JobId
    vertices: tuple[VertexParallelismInfo, ...]


class RescaleTrigger(StrEnum):
    """The cause of a rescale (Flink's TriggerCause)."""

    INITIAL_SCHEDULE = "INITIAL_SCHEDULE"
    UPDATE_REQUIREMENT = "UPDATE_REQUIREMENT"
    NEW_RESOURCE_AVAILABLE = "NEW_RESOURCE_AVAILABLE"
    RECOVERABLE_FAILOVER = "RECOVERABLE_FAILOVER"


class RescaleTerminalState(StrEnum):
    """The outcome of a rescale (Flink's TerminalState)."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    IGNORED = "IGNORED"


class RescaleTerminatedReason(StrEnum):
    """The reason for a rescale's outcome (Flink's TerminatedReason)."""

    SUCCEEDED = "SUCCEEDED"
    EXCEPTION_OCCURRED = "EXCEPTION_OCCURRED"
    RESOURCE_REQUIREMENTS_UPDATED = "RESOURCE_REQUIREMENTS_UPDATED"
    NO_RESOURCES_OR_PARALLELISMS_CHANGE = "NO_RESOURCES_OR_PARALLELISMS_CHANGE"
    JOB_FINISHED = "JOB_FINISHED"
    JOB_FAILED = "JOB_FAILED"
    JOB_CANCELED = "JOB_CANCELED"

    @property
    def terminal_state(self) -> RescaleTerminalState:
        match self:
            case RescaleTerminatedReason.SUCCEEDED:
                return RescaleTerminalState.COMPLETED
            case RescaleTerminatedReason.EXCEPTION_OCCURRED:
                return RescaleTerminalState.FAILED
            case _:
                return RescaleTerminalState.IGNORED


class SchedulerState(StrEnum):
    """The states of an adaptive scheduler in a rescale, with Flink's names."""

    CREATED = "Created"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    CREATING_EXECUTION_GRAPH = "CreatingExecutionGraph"
    EXECUTING = "Executing"
    RESTARTING = "Restarting"
    FAILING = "Failing"
    CANCELING = "Canceling"
    FINISHED = "Finished"


@value("rescaling.scheduler_state_span")
class SchedulerStateSpan(Value):
    """The time that the scheduler spent in a state during a rescale. `left_ms` is None if it is still in that state."""

    state: SchedulerState
    entered_ms: int
    left_ms: int | None = None


@value("rescaling.vertex_rescale")
class VertexRescale(Value):
    """A vertex in a rescale: its bounds, and its parallelism before and after (None: unknown)."""

    vertex_id: JobVertexId
    name: str
    slot_sharing_group: str
    sufficient_parallelism: int
    desired_parallelism: int
    pre_parallelism: int | None = None
    post_parallelism: int | None = None


@value("rescaling.rescale")
class Rescale(Value):
    """A rescale from its trigger to its end. `attempt` counts the rescales for the same requirements."""

    rescale_id: str
    requirements_id: str
    attempt: int
    trigger: RescaleTrigger
    started_ms: int
    vertices: tuple[VertexRescale, ...]
    states: tuple[SchedulerStateSpan, ...] = ()
    ended_ms: int | None = None
    reason: RescaleTerminatedReason | None = None
    comment: str = ""

    @property
    def terminal_state(self) -> RescaleTerminalState | None:
        return None if self.reason is None else self.reason.terminal_state


@message("rescaling.rescale_changed")
class RescaleChanged(Message):
    """JobMaster -> listeners: a rescale has started, progressed or ended."""

    job_id: JobId
    rescale: Rescale


@message("rescaling.request_rescales")
class RequestRescales(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return the rescales of a job, as `RescalesSnapshot`."""

    job_id: JobId
    reply_to: Ref


@message("rescaling.rescales")
class RescalesSnapshot(Message):
    """ExecutionGraphInfoStore -> client: the last rescales of a job, oldest first, and the counts of all rescales."""

    job_id: JobId
    rescales: tuple[Rescale, ...] = ()
    completed: int = 0
    failed: int = 0
    ignored: int = 0
