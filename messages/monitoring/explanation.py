"""Queries about a job that makes no progress, and the actors' replies: what each actor waits for, and since when.

Every actor replies at once from its own knowledge and asks no other actor, which might be stuck. The client combines
the replies (`flykka.explanation`), and reports actors that did not reply.
"""

from __future__ import annotations

from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.tasks.task import EventTimeHold, ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, ResultPartitionId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@message("explanation.explain_job")
class ExplainJob(Message):
    """client -> JobMaster: return the job's progress and what it waits for."""

    reply_to: Ref


@value("explanation.attempt")
class AttemptExplained(Value):
    """The current attempt of one subtask, as the JobMaster sees it, and the time of its last state change."""

    attempt: ExecutionAttemptId
    vertex_id: JobVertexId
    subtask: int
    name: str
    state: ExecutionState
    since_ms: int
    task_manager_id: TaskManagerId | None = None


@value("explanation.restart")
class RestartExplained(Value):
    """A pending restart of the whole job, or of the `tasks` of a region."""

    due_ms: int
    cause: SerializedThrowable
    tasks: tuple[str, ...] = ()


@value("explanation.resource_wait")
class ResourceWaitExplained(Value):
    """A wait for slots before a job starts or restarts: the minimum and the desired number."""

    since_ms: int
    minimum: int
    desired: int


@message("explanation.job_explained")
class JobExplained(Message):
    """JobMaster -> client: status, attempts, and what the job itself waits for, at `now_ms` of its clock.

    `waits_for_state` is the time since which the job waits for the state to restore. `waits_for_end` is the time since
    which it finalizes the vertices (if RUNNING) or cleans up (if it has ended). `retained` describes the data that
    external systems retain for its sources.
    """

    job_id: JobId
    now_ms: int
    status: JobStatus
    since_ms: int
    attempts: tuple[AttemptExplained, ...]
    cause: SerializedThrowable | None = None
    restarts: tuple[RestartExplained, ...] = ()
    waits_for_state: int | None = None
    waits_for_end: int | None = None
    slots_requested: int = 0
    slots_requested_since_ms: int | None = None
    waits_for_resources: ResourceWaitExplained | None = None
    retained: tuple[str, ...] = ()


@message("explanation.explain_checkpoints")
class ExplainCheckpoints(Message):
    """client -> CheckpointCoordinator: return the pending checkpoints, and the attempts for which they wait."""

    reply_to: Ref


@value("explanation.pending_checkpoint")
class PendingExplained(Value):
    """A pending checkpoint: its phase (a PendingPhase) and the attempts that have not acknowledged."""

    checkpoint_id: int
    since_ms: int
    phase: str
    awaited: tuple[ExecutionAttemptId, ...]
    acknowledged: int
    is_savepoint: bool = False


@message("explanation.checkpoints_explained")
class CheckpointsExplained(Message):
    """CheckpointCoordinator -> client: the pending checkpoints, oldest first."""

    job_id: JobId
    now_ms: int
    pending: tuple[PendingExplained, ...]


@message("explanation.explain_task")
class ExplainTask(Message):
    """client -> Task: return the attempt's activity, and what its inputs and outputs wait for."""

    reply_to: Ref


@value("explanation.stage")
class StageExplained(Value):
    """A stage in flight, as the Task knows it: its purpose as text."""

    purpose: str
    since_ms: int


@value("explanation.channel")
class ChannelExplained(Value):
    """An input channel that has not ended: the subpartition that it reads and its queue.

    `credit` is the number of batches that its producer may still send. If `is_blocked`, its barrier has arrived, and
    the channel is not read until the other barriers have arrived. If `barrier_missing`, its barrier has not arrived.
    """

    partition_id: ResultPartitionId
    subpartition: int
    state: str
    queued: int
    credit: int
    is_blocked: bool = False
    barrier_missing: bool = False


@value("explanation.output")
class OutputExplained(Value):
    """A subpartition with `queued` elements that wait to be sent.

    `credit` is the number of batches that its reader can accept, or None without a reader. If `is_full`, its partition
    has no buffer for another batch, so the task is blocked until a reader takes one.
    """

    partition_id: ResultPartitionId
    subpartition: int
    queued: int
    credit: int | None
    is_full: bool


@message("explanation.task_explained")
class TaskExplained(Message):
    """Task -> client: the state of the attempt, its stages in flight (oldest first), its inputs and outputs.

    `activity` is `busy`, `back-pressured` or `idle`, since `activity_since_ms`. If there are many channels, only the
    most informative are included; `channels_open` is the number of all. `aligning` is the checkpoint whose barriers are
    being aligned. `snapshotting` are the checkpoints that the attempt has started and not acknowledged. `ending` is the
    state that it will reach when its bridge is closed.

    A file source has `files_unread`; its next batch takes up to `batch_limit_bytes` of them, or None if the user has
    set a number of files. `waits_for_group` is set if an aligned source is too far ahead and waits for the other
    sources of its group. `held_back_by` names what holds back the watermarks that the attempt creates.
    """

    attempt: ExecutionAttemptId
    now_ms: int
    state: ExecutionState
    activity: str
    activity_since_ms: int
    stages: tuple[StageExplained, ...] = ()
    channels: tuple[ChannelExplained, ...] = ()
    channels_open: int = 0
    outputs: tuple[OutputExplained, ...] = ()
    aligning: int | None = None
    is_source: bool = False
    waits_for_splits: bool = False
    snapshotting: tuple[int, ...] = ()
    waits_for_final_checkpoint: bool = False
    ending: ExecutionState | None = None
    files_unread: int = 0
    batch_limit_bytes: int | None = None
    waits_for_group: str | None = None
    held_back_by: EventTimeHold | None = None


@message("explanation.explain_stages")
class ExplainStages(Message):
    """client -> bridge: return the progress of the running stages."""

    reply_to: Ref


@value("explanation.stage_progress")
class StageProgress(Value):
    """A running stage of the data plane: its description, and the progress of its Spark jobs.

    `tasks` is 0 before a Spark job has started, and while the Spark session does not respond. `progress_ms` is the time
    when one of its tasks was last seen to end, or when the stage started.
    """

    what: str
    since_ms: int
    tasks: int = 0
    tasks_done: int = 0
    tasks_active: int = 0
    tasks_failed: int = 0
    progress_ms: int | None = None


@message("explanation.stages_explained")
class StagesExplained(Message):
    """bridge -> client: the running stages, oldest first."""

    attempt: ExecutionAttemptId
    stages: tuple[StageProgress, ...]


@message("explanation.explain_slots")
class ExplainSlots(Message):
    """client -> ResourceManager: return the slots, and the requests that wait for a slot."""

    reply_to: Ref


@value("explanation.task_manager_info")
class TaskManagerInfo(Value):
    """The slots of one registered TaskManager, its declared resources, and the resources that no slot uses."""

    task_manager: TaskManagerId
    slots: int
    free: int
    total: ResourceSpec = ResourceSpec()
    remaining: ResourceSpec = ResourceSpec()
    network_memory_bytes: int = 0


@message("explanation.slots_explained")
class SlotsExplained(Message):
    """ResourceManager -> client: the slots of the registered TaskManagers, and the number of pending requests.

    `could_start` is the number of further slots, on TaskManagers that are starting or that may be started.
    """

    now_ms: int
    task_managers: tuple[TaskManagerId, ...]
    slots: int
    free: int
    pending_requests: int
    by_task_manager: tuple[TaskManagerInfo, ...] = ()
    could_start: int = 0


@message("explanation.explain_leadership")
class ExplainLeadership(Message):
    """client -> JobManager: return whether the receiver leads, and whether it knows the job."""

    reply_to: Ref
    job_id: JobId


@message("explanation.leadership_explained")
class LeadershipExplained(Message):
    """JobManager -> client: whether it leads and since when, or else the leader, and the job's phase.

    `job` describes the phase as text, for example that the job's graph is being checked. None if the job is unknown.
    """

    now_ms: int
    is_leader: bool
    job: str | None = None
    leader: str | None = None
    since_ms: int | None = None
