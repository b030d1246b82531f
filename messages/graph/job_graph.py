"""The job graph as it is submitted and persisted, with its restart strategy: names and edges, never code."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.state.handles import StateSchema
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value, value


class CheckpointFailureReason(StrEnum):
    """The causes of failed checkpoints that can be tolerated separately, with Flink's names.

    A task could not write its state (ASYNC_EXCEPTION) or take part (DECLINED), a checkpoint exceeded its timeout
    (EXPIRED), its metadata could not be written (FINALIZE), a master hook raised an OSError (IO_EXCEPTION), or a
    checkpoint could not start for another reason (TRIGGER). Only TRIGGER is tolerated by default.
    """

    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    IO_EXCEPTION = "IO_EXCEPTION"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"


UNLIMITED_TOLERABLE_FAILURES = 2**31 - 1
"""The limit with which failed checkpoints never fail the job (Flink's UNLIMITED_TOLERABLE_FAILURE_NUMBER)."""


@value("job_graph.tolerable_failures")
class TolerableFailures(Value):
    """The number of checkpoints that may fail in a row for one reason, counted separately from other reasons."""

    reason: CheckpointFailureReason
    number: int


@value("job_graph.no_restart")
class NoRestartStrategyConfiguration(Value):
    """Never restarts: the first failure fails the job."""


@value("job_graph.restart_strategy")
class FixedDelayRestartStrategyConfiguration(Value):
    """At most `attempts` restarts (None: unlimited), each `delay_ms` after the failure."""

    attempts: int | None = None
    delay_ms: int = 0


@value("job_graph.failure_rate_restart")
class FailureRateRestartStrategyConfiguration(Value):
    """At most `max_failures` restarts within `interval_ms`, each `delay_ms` after the failure."""

    max_failures: int
    interval_ms: int
    delay_ms: int


@value("job_graph.exponential_delay_restart")
class ExponentialDelayRestartStrategyConfiguration(Value):
    """Unlimited restarts with a delay that grows with each failure from `initial_backoff_ms` to `max_backoff_ms`.

    The delay is multiplied by `backoff_multiplier`, varied by up to `jitter_factor` of itself (0 to 1), and reset when
    the job has run for `reset_backoff_threshold_ms` longer than the delay. A job that fails `max_same_failures` times
    with the same failure, without a completed checkpoint in between, is not restarted (None: it is restarted).
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
"""The reaction of a job to a failure (Flink's RestartStrategies.RestartStrategyConfiguration)."""


class OperatorKind(StrEnum):
    """The kind of an operator, as far as the runtime distinguishes kinds."""

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
    INCREMENTAL = "INCREMENTAL"
    TIMESTAMPS_AND_WATERMARKS = "TIMESTAMPS_AND_WATERMARKS"
    SINK = "SINK"

    @property
    def is_local(self) -> bool:
        """True for the part of another operator that runs before the exchange and is hidden from users."""
        return self in (
            OperatorKind.LOCAL_INPUT,
            OperatorKind.LOCAL_WINDOW_AGGREGATE,
            OperatorKind.LOCAL_GROUP_AGGREGATE,
            OperatorKind.LOCAL_JOIN,
        )

    @property
    def makes_watermarks(self) -> bool:
        """True if the operator creates watermarks from its rows, and forwards only the end of event time."""
        return self in (OperatorKind.SOURCE, OperatorKind.TIMESTAMPS_AND_WATERMARKS)

    @property
    def keeps_keyed_state(self) -> bool:
        """True if the operator has keyed state, for which it gets a share of the managed memory."""
        return self in (
            OperatorKind.WINDOW_AGGREGATE,
            OperatorKind.GROUP_AGGREGATE,
            OperatorKind.JOIN,
            OperatorKind.REGULAR_JOIN,
            OperatorKind.KEYED_PROCESS,
            OperatorKind.INCREMENTAL,
        )

    @property
    def uses_event_time(self) -> bool:
        """True if a watermark can make the operator emit rows."""
        return self in (
            OperatorKind.WINDOW_AGGREGATE,
            OperatorKind.JOIN,
            OperatorKind.PROCESS,
            OperatorKind.KEYED_PROCESS,
        )

    @property
    def uses_processing_time(self) -> bool:
        """True if the operator uses the processing time of its stages, and may have processing-time timers."""
        kinds = (OperatorKind.REGULAR_JOIN, OperatorKind.PROCESS, OperatorKind.KEYED_PROCESS, OperatorKind.INCREMENTAL)
        return self in kinds

    @property
    def coalesces(self) -> bool:
        """True if queued batches may be merged, because each batch costs a Spark job and the batches' boundaries do not
        matter.

        Windows and joins store batches that were prepared before the exchange unchanged, without a job. Operators that
        create watermarks emit a watermark after each batch.
        """
        excluded = (OperatorKind.WINDOW_AGGREGATE, OperatorKind.JOIN, OperatorKind.REGULAR_JOIN)
        return not self.makes_watermarks and self not in excluded

    @property
    def has_mini_batches(self) -> bool:
        """True if the operator waits for more batches, because each costs several Spark jobs downstream."""
        return self is OperatorKind.INCREMENTAL


class ShipStrategy(StrEnum):
    """The distribution of an edge's batches to the consuming subtasks (Flink's StreamPartitioner).

    FORWARD and RESCALE lead to the neighbouring subtasks only, all others to every subtask.
    """

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"


class ResultPartitionType(StrEnum):
    """The type of an output: read while it is written, or afterwards (Flink's ResultPartitionType).

    An approximate output continues when its reader has failed. The next reader gets only later batches.
    """

    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
    PIPELINED_APPROXIMATE = "PIPELINED_APPROXIMATE"
    BLOCKING = "BLOCKING"


class JobType(StrEnum):
    """The type of a job: processes an unbounded stream, or a bounded input stage by stage (Flink's JobType).

    In a BATCH job, a task without a sink finishes when it has read its input. Tasks with sinks wait for the job's only
    checkpoint, with which the job ends.
    """

    STREAMING = "STREAMING"
    BATCH = "BATCH"


class ScheduleMode(StrEnum):
    """The deployment mode of tasks: all tasks together, connected tasks together, or each task when its input is
    available.

    Follows Flink's ScheduleMode; PIPELINED_REGION is its successor in newer Flink.
    """

    EAGER = "EAGER"
    PIPELINED_REGION = "PIPELINED_REGION"
    LAZY_FROM_SOURCES = "LAZY_FROM_SOURCES"


class SchedulerType(StrEnum):
    """The scheduler of a streaming job (Flink's jobmanager.scheduler).

    DEFAULT waits for as many slots as the job requests; ADAPTIVE runs the job with the available slots.
    """

    DEFAULT = "DEFAULT"
    ADAPTIVE = "ADAPTIVE"


class FiringMode(StrEnum):
    """The time at which a vertex emits completed results: with the watermark, or once per checkpoint."""

    ON_WATERMARK = "ON_WATERMARK"
    ON_CHECKPOINT = "ON_CHECKPOINT"


class MonotonyViolationHandler(StrEnum):
    """The reaction of a source with ascending event times to a decreasing event time (as in Flink)."""

    IGNORE = "IGNORE"
    LOG = "LOG"
    FAIL = "FAIL"


class ExternalizedCheckpointRetention(StrEnum):
    """The retention of the last checkpoints when a job is cancelled or fails.

    A finished job retains only the checkpoint with which it was stopped.
    """

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@value("job_graph.operator_ref")
class OperatorRef(Value):
    """An operator by its uid. The fingerprint identifies the kind of code to which the operator is bound."""

    uid: str
    fingerprint: str


@value("job_graph.operator")
class Operator(Value):
    """An operator of a chain. `input_operator` is the index of the operator in the chain that it reads (None: the
    gates).

    `state_schema` is the schema of its keyed state, if it has any. `user_defined_operator_id` is the id under which its
    state is stored if the user has set one (`set_uid_hash`). `has_coordinator` is True if its function has an operator
    coordinator; sources always have one.
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
    """The resources that operators need of a slot, in thousandths of a core and in MiB. 0 means unspecified.

    `managed_mib` is managed memory, which holds state; `heap_mib` is other memory.
    """

    cpu_millis: int = 0
    heap_mib: int = 0
    managed_mib: int = 0


@value("job_graph.edge")
class JobEdge(Value):
    """An input of the vertex that contains it: output number `source_output` of the vertex `source`.

    `key_by` is the operator whose key expressions split a HASH edge. Rows of a `broadcast_variable` are not an input of
    the head operator: its functions read all of these rows under this name.
    """

    source: JobVertexId
    source_output: int
    ship_strategy: ShipStrategy
    key_by: OperatorRef | None = None
    result_partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED
    broadcast_variable: str | None = None


@value("job_graph.watermark_alignment")
class WatermarkAlignment(Value):
    """Sources of a `group` pause if their watermark is more than `max_drift_ms` ahead of the group's minimum.

    Every `update_interval_ms` they report their watermark and receive the maximum that they may reach.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int


@value("job_graph.vertex")
class JobVertex(Value):
    """A chain of operators that runs as one task per subtask. `operators` are in topological order.

    `max_parallelism` is the number of key groups. If it was not configured, that of the checkpoint to start from
    replaces it. `outputs` contains, for each output number, the operator of the chain whose rows the output carries.

    If a vertex creates watermarks, they are the latest event time minus `watermark_delay_ms` (None: it creates none).
    With `punctuated_watermarks` they are the event time of the latest row that marks a watermark. A vertex that has
    read no rows for `idle_timeout_ms` is idle and holds no watermark back (None: it is never idle). If it has read no
    rows for `quiet_period_ms`, its watermark advances with the clock until it reads rows again (None: the watermark
    waits). A source with a `watermark_alignment` does not run ahead of the other sources of its group.

    The vertices of a `co_location_group` run subtasks with the same number in one slot. `resources` is the sum over the
    chain. A vertex that only `feeds_broadcast_variables` finishes when it has read its input, without waiting for a
    checkpoint. A task with state may use `managed_memory_fraction` of the managed memory of its slot.
    `parallelism_limit` is the highest parallelism that the chain's operators support, whatever the number of key groups
    (None: unlimited).
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
    """The tasks that restart after the failure of a task, with the values of Flink's execution failover option.

    REGION: the tasks that exchange pipelined rows with the failed task, and the tasks that read their results. FULL:
    all tasks.
    """

    REGION = "region"
    FULL = "full"


class InputDependencyConstraint(StrEnum):
    """The condition for starting a lazily scheduled task: ANY of its inputs can be read, or ALL can (as in Flink)."""

    ANY = "ANY"
    ALL = "ALL"


@value("job_graph.task_cancellation")
class TaskCancellationSettings(Value):
    """The time limits for cancelling a task, with Flink's names. None means the cluster's default.

    The cancellation is repeated to the bridge every `interval_ms`. After `timeout_ms` the TaskManager ends (0: it waits
    forever).
    """

    interval_ms: int | None = None
    timeout_ms: int | None = None


class CheckpointingMode(StrEnum):
    """The guarantee for every row after a failure: it counts exactly once, or at least once."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


MAX_CONCURRENT_DELETIONS = 4
"""The default limit of concurrent deletions of obsolete files: each deletion uses a thread, and loads a storage shared
with other users.
"""


@value("job_graph.checkpointing")
class CheckpointingSettings(Value):
    """The checkpointing of a job (Flink's CheckpointCoordinatorConfiguration). Without an interval only the final
    checkpoint is taken.

    Savepoints go to `savepoint_directory` unless the trigger names another directory. `unaligned` checkpoints start
    aligned and switch after `aligned_timeout_ms`; with 0 they are unaligned from the start. The ended job is archived
    in `archive_directory` (None: not at all).

    The first checkpoint is taken after `initial_delay_ms` (None: early), or after a random delay. At most
    `max_concurrent_deletions` of obsolete files run at a time. New folders of checkpoints, savepoints and archives get
    these `permissions`, and files the same without the right to execute. With `fsync` files are durable before an
    acknowledgement or a commit refers to them.
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
    """The heartbeats of a client that is attached to its job (Flink's client.heartbeat.interval and .timeout).

    The client sends a heartbeat every `interval_ms`. The job is cancelled after `timeout_ms` without a heartbeat.
    """

    interval_ms: int
    timeout_ms: int


@value("job_graph.session_setting")
class SessionSetting(Value):
    """A setting of the Spark session that affects how results are computed."""

    name: str
    text: str


@value("job_graph.job_graph")
class JobGraph(Value):
    """A job as it is submitted. `vertices` are in topological order. Ids and uids are unique.

    Every `latency_tracking_interval_ms` each source subtask sends a latency marker (None: never). Attempts are numbered
    from `first_attempt_number`, so that a new JobMaster of the job reuses no number. A stage that makes no progress for
    `stage_timeout_ms` fails its attempt (None: no limit). With `coalesces_batches`, a task processes queued batches in
    one stage; incremental operators wait up to `mini_batch_latency_ms` for more batches. An attempt whose deployment
    its TaskManager does not acknowledge fails after `rpc_timeout_ms`. With a `client_heartbeat` the job is cancelled
    when its client has died. With the ADAPTIVE scheduler the job waits up to `resource_wait_timeout_ms` for all slots,
    then starts with those available; `rescale_cooldown_ms` is the minimum time between two rescales. `session_settings`
    are the Spark settings on which the results depend.
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
    mini_batch_latency_ms: int = 0
