"""Questions about a job that does not go on, and the answers of its actors: which waits for which, and since when.

Every question is answered at once, from what the actor knows; nobody asks further, for who is asked further may be
stuck. The asker puts the answers together (`flykka.explanation`), and tells those apart that were silent.
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
    """client -> JobMaster: how far is the job, and what does it wait for?"""

    reply_to: Ref


@value("explanation.attempt")
class AttemptExplained(Value):
    """The current attempt of one subtask, as the JobMaster sees it, in its state since then."""

    attempt: ExecutionAttemptId
    vertex_id: JobVertexId
    subtask: int
    name: str
    state: ExecutionState
    since_ms: int
    task_manager_id: TaskManagerId | None = None


@value("explanation.restart")
class RestartExplained(Value):
    """A restart that waits for its time: of the whole job, or of the `tasks` of a region."""

    due_ms: int
    cause: SerializedThrowable
    tasks: tuple[str, ...] = ()


@value("explanation.resource_wait")
class ResourceWaitExplained(Value):
    """A job waits for slots before it begins or restarts: the least and the most that it can use."""

    since_ms: int
    minimum: int
    desired: int


@message("explanation.job_explained")
class JobExplained(Message):
    """JobMaster -> client: status, attempts, and what the job itself waits for, at `now_ms` of its clock.

    `waits_for_state` is since when it waits to hear what its attempts start from, `waits_for_end` since when what is
    done once behind all tasks is on its way: finalizing where the status is RUNNING, putting away where the job has
    ended. `retained` says what others keep for its sources.
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
    """client -> CheckpointCoordinator: which checkpoints are pending, and for whom do they wait?"""

    reply_to: Ref


@value("explanation.pending_checkpoint")
class PendingExplained(Value):
    """A pending checkpoint: the phase it is in (of PendingPhase) and the attempts that have not acknowledged."""

    checkpoint_id: int
    since_ms: int
    phase: str
    awaited: tuple[ExecutionAttemptId, ...]
    acknowledged: int
    is_savepoint: bool = False


@message("explanation.checkpoints_explained")
class CheckpointsExplained(Message):
    """CheckpointCoordinator -> client: the pending checkpoints, the oldest first."""

    job_id: JobId
    now_ms: int
    pending: tuple[PendingExplained, ...]


@message("explanation.explain_task")
class ExplainTask(Message):
    """client -> Task: what is the attempt at, and what do its inputs and outputs wait for?"""

    reply_to: Ref


@value("explanation.stage")
class StageExplained(Value):
    """A stage in flight, as the Task knows it: what it was begun for, in words."""

    purpose: str
    since_ms: int


@value("explanation.channel")
class ChannelExplained(Value):
    """An input channel that has not ended: which subpartition it reads and what it holds.

    `credit` is how many batches its producer may still send. `is_blocked`: its barrier is here, and it is not read
    until those of the others are; `barrier_missing`: its barrier is one of these.
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

    `credit` is how many batches its reader will take, None where nobody reads.

    `is_full`: its partition has no buffer for another batch, so the task stands still until a reader takes one.
    """

    partition_id: ResultPartitionId
    subpartition: int
    queued: int
    credit: int | None
    is_full: bool


@message("explanation.task_explained")
class TaskExplained(Message):
    """Task -> client: the state of the attempt, its stages in flight (the oldest first), its inputs and outputs.

    `activity` is how it spends its time (`busy`, `back-pressured`, `idle`), since `activity_since_ms`. Of many
    channels those are told that tell most; `channels_open` is how many there are. `aligning` is the checkpoint whose
    barriers are coming together, `snapshotting` are those that the attempt has begun and not acknowledged. `ending`:
    the state that it is on its way to, while its bridge closes.

    A source that reads files holds `files_unread`; its next batch takes as many of them as are `batch_limit_bytes`
    together, which is None where the user has said how many. One that is aligned and too far ahead waits for the other
    sources of its group: `waits_for_group`. `held_back_by` is what the watermarks that it makes wait for.
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
    """client -> bridge: what do the stages at work stand at?"""

    reply_to: Ref


@value("explanation.stage_progress")
class StageProgress(Value):
    """A stage at work on the data plane: what it does, and how many of the tasks of its Spark jobs are done.

    Nothing is known of the Spark tasks (`tasks` is 0) before a job has begun, and where its session does not answer.
    `progress_ms` is when a task of it was last seen to end, its beginning where none has.
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
    """bridge -> client: the stages at work, the oldest first."""

    attempt: ExecutionAttemptId
    stages: tuple[StageProgress, ...]


@message("explanation.explain_slots")
class ExplainSlots(Message):
    """client -> ResourceManager: which slots are there, and who waits for one?"""

    reply_to: Ref


@value("explanation.task_manager_info")
class TaskManagerInfo(Value):
    """The slots of one registered TaskManager, the resources that it has declared, and what no slot has of them."""

    task_manager: TaskManagerId
    slots: int
    free: int
    total: ResourceSpec = ResourceSpec()
    remaining: ResourceSpec = ResourceSpec()
    network_memory_bytes: int = 0


@message("explanation.slots_explained")
class SlotsExplained(Message):
    """ResourceManager -> client: the slots of the registered TaskManagers, and how many requests wait for one.

    So many slots more there `could_start` to be: of TaskManagers on their way, or that may be started.
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
    """client -> JobManager: does it lead, and does it know the job?"""

    reply_to: Ref
    job_id: JobId


@message("explanation.leadership_explained")
class LeadershipExplained(Message):
    """JobManager -> client: whether it leads (since then), who does otherwise, and what it does with the job.

    `job` is in words: that its graph is checked and stored, that its JobMaster runs it; None where it is not known.
    """

    now_ms: int
    is_leader: bool
    job: str | None = None
    leader: str | None = None
    since_ms: int | None = None
