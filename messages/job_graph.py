"""The job graph as it is submitted and persisted: names and wiring, never code."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.ids import JobId, JobVertexId, OperatorId
from flykka.messages.message import Value, value
from flykka.messages.state import StateSchema


class OperatorKind(StrEnum):
    """What an operator is to the runtime."""

    SOURCE = "SOURCE"
    STATELESS = "STATELESS"
    LOCAL_WINDOW_AGGREGATE = "LOCAL_WINDOW_AGGREGATE"
    WINDOW_AGGREGATE = "WINDOW_AGGREGATE"
    SINK = "SINK"


class ShipStrategy(StrEnum):
    """How the batches of an edge reach the consuming subtasks (Flink's StreamPartitioner)."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"


class FiringMode(StrEnum):
    """When a vertex fires its windows: with the watermark, or once per checkpoint where nobody can tell."""

    ON_WATERMARK = "ON_WATERMARK"
    ON_CHECKPOINT = "ON_CHECKPOINT"


class ExternalizedCheckpointRetention(StrEnum):
    """What becomes of the last checkpoints when a job is cancelled or fails.

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
    """One operator of a chain. `input_operator` is the place in the chain that it reads; None reads the gates.

    `state_schema` is what its keyed state is made of, where it has any.
    """

    operator_id: OperatorId
    ref: OperatorRef
    name: str
    kind: OperatorKind
    input_operator: int | None = None
    state_schema: StateSchema | None = None


@value("job_graph.edge")
class JobEdge(Value):
    """An input of the vertex that holds it: the output number `source_output` of the vertex `source`.

    `key_by` is the operator whose key expressions split a HASH edge.
    """

    source: JobVertexId
    source_output: int
    ship_strategy: ShipStrategy
    key_by: OperatorRef | None = None


@value("job_graph.vertex")
class JobVertex(Value):
    """A chain of operators that runs as one task per subtask. `operators` are in topological order.

    `outputs` names, by output number, the operator of the chain whose rows the output carries. A source that has read
    nothing for `idle_timeout_ms` is idle: it holds no watermark back (None: it is never idle).
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


@value("job_graph.restart_strategy")
class RestartStrategyConfiguration(Value):
    """`attempts` restarts at most (None: without end), `delay_ms` after each failure; 0 attempts is no restart."""

    attempts: int | None = None
    delay_ms: int = 0


@value("job_graph.checkpointing")
class CheckpointingSettings(Value):
    """Flink's CheckpointCoordinatorConfiguration. Without an interval only the final checkpoint is taken.

    Savepoints go to `savepoint_directory` where whoever triggers one names no other.
    """

    directory: str
    interval_ms: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retained: int = 1
    retention: ExternalizedCheckpointRetention = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    savepoint_directory: str | None = None


@value("job_graph.job_graph")
class JobGraph(Value):
    """What is submitted. `vertices` are in topological order; ids and uids are unique."""

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    checkpointing: CheckpointingSettings
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    restart_strategy: RestartStrategyConfiguration = RestartStrategyConfiguration()
