"""The job graph as it is submitted and persisted, with its restart strategy: names and wiring, never code."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.state.handles import StateSchema
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value, value


class CheckpointFailureReason(StrEnum):
    """The causes of failed checkpoints that can be tolerated each by itself, by Flink's names.

    A task could not write its state (ASYNC_EXCEPTION) or take part (DECLINED), a checkpoint took too long, its metadata
    could not be written (FINALIZE), a master hook met an OSError (IO_EXCEPTION), or a checkpoint could not begin for
    another reason (TRIGGER). The last one alone is tolerated unless set.
    """

    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    IO_EXCEPTION = "IO_EXCEPTION"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"


UNLIMITED_TOLERABLE_FAILURES = 2**31 - 1
"""Failed checkpoints never fail the job (Flink's UNLIMITED_TOLERABLE_FAILURE_NUMBER)."""


@value("job_graph.tolerable_failures")
class TolerableFailures(Value):
    """The number of checkpoints in a row that may fail of one cause, beside the number of those of all others."""

    reason: CheckpointFailureReason
    number: int


@value("job_graph.no_restart")
class NoRestartStrategyConfiguration(Value):
    """The first failure fails the job."""


@value("job_graph.restart_strategy")
class FixedDelayRestartStrategyConfiguration(Value):
    """`attempts` restarts at most (None: without end), `delay_ms` after each failure."""

    attempts: int | None = None
    delay_ms: int = 0


@value("job_graph.failure_rate_restart")
class FailureRateRestartStrategyConfiguration(Value):
    """`max_failures` restarts at most within `interval_ms`, `delay_ms` after each failure."""

    max_failures: int
    interval_ms: int
    delay_ms: int


@value("job_graph.exponential_delay_restart")
class ExponentialDelayRestartStrategyConfiguration(Value):
    """Restarts without end: the delay grows with each failure, from `initial_backoff_ms` to `max_backoff_ms`.

    It is multiplied by `backoff_multiplier`, spread by `jitter_factor` of itself (0 to 1) to both sides, and begins
    again when nothing has failed for `reset_backoff_threshold_ms` beyond the delay. A job that fails
    `max_same_failures` times with the same failure, and completes no checkpoint in between, is not restarted any more
    (None: it is).
    """

    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float
    max_same_failures: int | None = None


RestartStrategyConfiguration = (
    NoRestartStrategyConfiguration
    | FixedDelayRestartStrategyConfiguration
    | FailureRateRestartStrategyConfiguration
    | ExponentialDelayRestartStrategyConfiguration
)
"""The reaction to a failure (Flink's RestartStrategies.RestartStrategyConfiguration)."""


class OperatorKind(StrEnum):
    """The kind of an operator, as the runtime tells them apart."""

    SOURCE = "SOURCE"
    STATELESS = "STATELESS"
    LOCAL_INPUT = "LOCAL_INPUT"
    LOCAL_WINDOW_AGGREGATE = "LOCAL_WINDOW_AGGREGATE"
    WINDOW_AGGREGATE = "WINDOW_AGGREGATE"
    LOCAL_GROUP_AGGREGATE = "LOCAL_GROUP_AGGREGATE"
    GROUP_AGGREGATE = "GROUP_AGGREGATE"
    LOCAL_JOIN = "LOCAL_JOIN"
    JOIN = "JOIN"
    REGULAR_JOIN = "REGULAR_JOIN"
    PROCESS = "PROCESS"
    KEYED_PROCESS = "KEYED_PROCESS"
    TIMESTAMPS_AND_WATERMARKS = "TIMESTAMPS_AND_WATERMARKS"
    SINK = "SINK"

    @property
    def is_local(self) -> bool:
        """True if it is the part of another operator that runs before the exchange, which no user knows."""
        return self in (
            OperatorKind.LOCAL_INPUT,
            OperatorKind.LOCAL_WINDOW_AGGREGATE,
            OperatorKind.LOCAL_GROUP_AGGREGATE,
            OperatorKind.LOCAL_JOIN,
        )

    @property
    def makes_watermarks(self) -> bool:
        """True if it makes watermarks of the rows that it reads, and lets none pass but the end of event time."""
        return self in (OperatorKind.SOURCE, OperatorKind.TIMESTAMPS_AND_WATERMARKS)

    @property
    def keeps_keyed_state(self) -> bool:
        """True if it keeps state by key, for which it has a part of the managed memory."""
        return self in (
            OperatorKind.WINDOW_AGGREGATE,
            OperatorKind.GROUP_AGGREGATE,
            OperatorKind.JOIN,
            OperatorKind.REGULAR_JOIN,
            OperatorKind.KEYED_PROCESS,
        )

    @property
    def uses_event_time(self) -> bool:
        """True if watermarks make it emit rows."""
        return self in (
            OperatorKind.WINDOW_AGGREGATE,
            OperatorKind.JOIN,
            OperatorKind.PROCESS,
            OperatorKind.KEYED_PROCESS,
        )

    @property
    def uses_processing_time(self) -> bool:
        """True if it is told the processing time of its stages, and may have timers that go by it."""
        return self in (OperatorKind.REGULAR_JOIN, OperatorKind.PROCESS, OperatorKind.KEYED_PROCESS)

    @property
    def coalesces(self) -> bool:
        """True if batches that wait for it may become one: each is a Spark job, and it does not matter which is which.

        Windows and joins keep what was made ready before the exchange as it is, without a job. What makes watermarks
        says behind each batch how far event time is.
        """
        kept = (OperatorKind.WINDOW_AGGREGATE, OperatorKind.JOIN, OperatorKind.REGULAR_JOIN)
        return not self.makes_watermarks and self not in kept


class ShipStrategy(StrEnum):
    """The way in which the batches of an edge reach the consuming subtasks (Flink's StreamPartitioner).

    FORWARD and RESCALE lead to the neighbouring subtasks only, every other one to all of them.
    """

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"


class ResultPartitionType(StrEnum):
    """The type of an output: read while it is written, or after (Flink's ResultPartitionType).

    An approximate one goes on when its reader has failed, and gives the next reader what is made from then on.
    """

    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
    PIPELINED_APPROXIMATE = "PIPELINED_APPROXIMATE"
    BLOCKING = "BLOCKING"


class JobType(StrEnum):
    """The type of a job: it works on what comes, or on what is there, one part behind the other (Flink's JobType).

    Of a BATCH job a task without a sink has finished when it has read all; those with one wait for the checkpoint that
    the job ends with, the only one that it takes.
    """

    STREAMING = "STREAMING"
    BATCH = "BATCH"


class ScheduleMode(StrEnum):
    """The mode of deployment: all tasks together, those that are connected, or each when its input is there.

    Flink's ScheduleMode; PIPELINED_REGION is what has followed it.
    """

    EAGER = "EAGER"
    PIPELINED_REGION = "PIPELINED_REGION"
    LAZY_FROM_SOURCES = "LAZY_FROM_SOURCES"


class SchedulerType(StrEnum):
    """The scheduler of a streaming job (Flink's jobmanager.scheduler).

    DEFAULT waits for as many slots as the job wants; ADAPTIVE has the job run with those that there are.
    """

    DEFAULT = "DEFAULT"
    ADAPTIVE = "ADAPTIVE"


class FiringMode(StrEnum):
    """The moment at which a vertex emits what event time completes: with the watermark, or once per checkpoint."""

    ON_WATERMARK = "ON_WATERMARK"
    ON_CHECKPOINT = "ON_CHECKPOINT"


class MonotonyViolationHandler(StrEnum):
    """The reaction of a source with ascending event times to one that goes back (Flink's)."""

    IGNORE = "IGNORE"
    LOG = "LOG"
    FAIL = "FAIL"


class ExternalizedCheckpointRetention(StrEnum):
    """The fate of the last checkpoints when a job is cancelled or fails.

    A job that has finished keeps none, but the one that it was stopped with.
    """

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@value("job_graph.operator_ref")
class OperatorRef(Value):
    """An operator by its uid; the fingerprint says whether the code it is bound to is of the same kind."""

    uid: str
    fingerprint: str


@value("job_graph.operator")
class Operator(Value):
    """An operator of a chain. `input_operator` is the place in the chain that it reads; None reads the gates.

    `state_schema` is what its keyed state is made of, where it has any. `user_defined_operator_id` is the id that its
    state is stored under, where the user had to say so (`set_uid_hash`). `has_coordinator`: its function brings an
    operator coordinator; that of a source goes without saying.
    """

    operator_id: OperatorId
    ref: OperatorRef
    name: str
    kind: OperatorKind
    input_operator: int | None = None
    state_schema: StateSchema | None = None
    user_defined_operator_id: OperatorId | None = None
    has_coordinator: bool = False


@value("job_graph.resource_spec")
class ResourceSpec(Value):
    """The resources that operators need of a slot, in thousandths of a core and in MiB; 0 is not said.

    `managed_mib` is the part of the managed memory, which keeps state; `heap_mib` is memory beside it.
    """

    cpu_millis: int = 0
    heap_mib: int = 0
    managed_mib: int = 0


@value("job_graph.edge")
class JobEdge(Value):
    """An input of the vertex that holds it: the output number `source_output` of the vertex `source`.

    `key_by` is the operator whose key expressions split a HASH edge. The rows of a `broadcast_variable` are no input of
    the head operator: its functions read them, all together, by this name.
    """

    source: JobVertexId
    source_output: int
    ship_strategy: ShipStrategy
    key_by: OperatorRef | None = None
    result_partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED
    broadcast_variable: str | None = None


@value("job_graph.watermark_alignment")
class WatermarkAlignment(Value):
    """The sources of a `group` whose watermark is more than `max_drift_ms` ahead of its minimum do not read on.

    They say how far they are, and hear how far they may go, every `update_interval_ms`.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int


@value("job_graph.vertex")
class JobVertex(Value):
    """A chain of operators that runs as one task per subtask. `operators` are in topological order.

    `max_parallelism` is the number of key groups; one that was not configured is replaced by that of the checkpoint
    that the job starts from. `outputs` names, by output number, the operator of the chain whose rows the output
    carries. Of a vertex that makes watermarks, `watermark_delay_ms` is how far they stay behind the latest row (None:
    there are none); with `punctuated_watermarks` they are the event time of the latest row that marks one. When it has
    read nothing for `idle_timeout_ms` it is idle and holds no watermark back (None: it is never idle). When it has read
    nothing for `quiet_period_ms` its watermark goes on by the clock until it does (None: it waits). Subtasks of one
    number of the vertices of a `co_location_group` run in one slot. `resources` is the sum over the chain.
    A source with a `watermark_alignment` does not run ahead of the others of its group. A vertex that
    `feeds_broadcast_variables`, and nothing else, finishes when it has read all: it waits for no checkpoint. A task
    that keeps state may use `managed_memory_fraction` of the managed memory of its slot.
    An operator of the chain cannot run in more than `parallelism_limit` subtasks, whatever the key groups (None: it
    can).
    """

    vertex_id: JobVertexId
    name: str
    operators: tuple[Operator, ...]
    parallelism: int
    max_parallelism: int
    inputs: tuple[JobEdge, ...] = ()
    outputs: tuple[OperatorId, ...] = ()
    slot_sharing_group: str = "default"
    firing_mode: FiringMode = FiringMode.ON_WATERMARK
    watermark_delay_ms: int | None = None
    idle_timeout_ms: int | None = None
    on_monotony_violation: MonotonyViolationHandler = MonotonyViolationHandler.IGNORE
    punctuated_watermarks: bool = False
    co_location_group: str | None = None
    resources: ResourceSpec = ResourceSpec()
    is_max_parallelism_configured: bool = False
    quiet_period_ms: int | None = None
    watermark_alignment: WatermarkAlignment | None = None
    feeds_broadcast_variables: bool = False
    managed_memory_fraction: float = 0.0
    parallelism_limit: int | None = None


class FailoverStrategyKind(StrEnum):
    """The tasks that restart after a failure of one of them, by the values of Flink's execution failover option.

    REGION: those that exchange rows with it while they are made, and those that read what they make; FULL: all.
    """

    REGION = "region"
    FULL = "full"


class InputDependencyConstraint(StrEnum):
    """The condition for a lazily scheduled task to begin: ANY of its inputs can be read, or ALL (Flink's)."""

    ANY = "ANY"
    ALL = "ALL"


@value("job_graph.task_cancellation")
class TaskCancellationSettings(Value):
    """Time limits of a task that is cancelled, by Flink's names; None is the cluster's.

    Its bridge is told again every `interval_ms`. After `timeout_ms` its TaskManager gives up (0: it waits for ever).
    """

    interval_ms: int | None = None
    timeout_ms: int | None = None


class CheckpointingMode(StrEnum):
    """The guarantee for every row after a failure: that it counts once, or that it is not lost."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


MAX_CONCURRENT_DELETIONS = 4
"""Deletions of what checkpoints need no more, unless set: each takes a thread, and a storage has others to serve."""


@value("job_graph.checkpointing")
class CheckpointingSettings(Value):
    """Flink's CheckpointCoordinatorConfiguration. Without an interval only the final checkpoint is taken.

    Savepoints go to `savepoint_directory` where the trigger names no other. Where checkpoints are `unaligned`
    they begin aligned and give that up after `aligned_timeout_ms`; with 0 they are unaligned from the start. What is
    known of the job when it has ended is archived in `archive_directory` (None: nowhere).

    The first checkpoint comes after `initial_delay_ms` (None: early), or after a delay that is drawn for the job. No
    more than `max_concurrent_deletions` of what is needed no more are under way at a time. New folders of checkpoints,
    savepoints and archives have these `permissions`, and files in them the same without the right to execute. With
    `fsync` files are durable before an acknowledgement or a commit refers to them.
    """

    directory: str
    interval_ms: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retained: int = 1
    retention: ExternalizedCheckpointRetention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    savepoint_directory: str | None = None
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    archive_directory: str | None = None
    initial_delay_ms: int | None = None
    has_random_initial_delay: bool = False
    tolerable_by_reason: tuple[TolerableFailures, ...] = ()
    max_concurrent_deletions: int = MAX_CONCURRENT_DELETIONS
    permissions: int = 0o700
    fsync: bool = True


@value("job_graph.client_heartbeat")
class ClientHeartbeatSettings(Value):
    """Signs of life of a client that is attached to its job (Flink's client.heartbeat.interval and .timeout).

    It gives one every `interval_ms`. The job is cancelled where there was none for `timeout_ms`.
    """

    interval_ms: int
    timeout_ms: int


@value("job_graph.session_setting")
class SessionSetting(Value):
    """A setting of Spark's session by which results are computed."""

    name: str
    text: str


@value("job_graph.job_graph")
class JobGraph(Value):
    """A job as it is submitted. `vertices` are in topological order; ids and uids are unique.

    Every `latency_tracking_interval_ms` each source subtask sends a latency marker (None: never). The attempts of each
    subtask are numbered from `first_attempt_number` on: a job that another JobMaster has run goes on behind them. A
    stage that makes no progress for `stage_timeout_ms` fails its attempt (None: it may take for ever). Where it
    `coalesces_batches`, a task takes batches that wait for it through one stage. An attempt whose deployment its
    TaskManager does not acknowledge fails after `rpc_timeout_ms`. With a `client_heartbeat` the job is cancelled when
    its client is gone. With the ADAPTIVE scheduler it begins with the slots that there are when it has waited for all
    for `resource_wait_timeout_ms`, and goes over to more at the earliest `rescale_cooldown_ms` after it was rescaled.
    `session_settings` are those that its results depend on.
    """

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    checkpointing: CheckpointingSettings
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    restart_strategy: RestartStrategyConfiguration = FixedDelayRestartStrategyConfiguration()
    schedule_mode: ScheduleMode = ScheduleMode.EAGER
    task_cancellation: TaskCancellationSettings = TaskCancellationSettings()
    latency_tracking_interval_ms: int | None = None
    slot_request_timeout_ms: int = 300_000
    job_type: JobType = JobType.STREAMING
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION
    input_dependency_constraint: InputDependencyConstraint = InputDependencyConstraint.ANY
    first_attempt_number: int = 0
    stage_timeout_ms: int | None = None
    coalesces_batches: bool = False
    rpc_timeout_ms: int = 10_000
    client_heartbeat: ClientHeartbeatSettings | None = None
    scheduler_type: SchedulerType = SchedulerType.DEFAULT
    resource_wait_timeout_ms: int = 10_000
    rescale_cooldown_ms: int = 30_000
    session_settings: tuple[SessionSetting, ...] = ()
