"""Metadata of a completed checkpoint: the content of its `_metadata` file, from which a restore starts."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import MasterState, OperatorCoordinatorState, SnapshotType
from flykka.messages.graph.job_graph import OperatorKind, OperatorRef
from flykka.messages.state.handles import StateSchema, TaskStateSnapshot
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value, value


@value("checkpoint.task_state")
class TaskStateEntry(Value):
    """The state that a subtask acknowledged; None where it has none. The parallelism is that of the snapshot."""

    vertex_id: JobVertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    state: TaskStateSnapshot | None = None


@value("checkpoint.operator")
class OperatorMetadata(Value):
    """An operator of the job that took the checkpoint, with or without state: who reads it later knows no more of it.

    `state_schema` is what its keyed state is made of, where it has any.
    """

    operator_id: OperatorId
    ref: OperatorRef
    name: str
    kind: OperatorKind
    parallelism: int
    max_parallelism: int
    state_schema: StateSchema | None = None


@value("checkpoint.completed")
class CompletedCheckpoint(Value):
    """A checkpoint that every task acknowledged and whose metadata is durable at `path`.

    `task_states` holds one entry per subtask, `coordinator_states` one per operator coordinator, `master_states` one
    per master hook that wants something back. `timestamp_ms` is when it was triggered, `duration_ms` how long it took
    from there to the last acknowledgement. `operators` are all of the job, in topological order; a checkpoint of an
    older version names none.
    """

    job_id: JobId
    checkpoint_id: int
    timestamp_ms: int
    duration_ms: int
    task_states: tuple[TaskStateEntry, ...]
    coordinator_states: tuple[OperatorCoordinatorState, ...] = ()
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    path: str = ""
    job_name: str = ""
    operators: tuple[OperatorMetadata, ...] = ()
    master_states: tuple[MasterState, ...] = ()
