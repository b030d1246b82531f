"""Checkpoints and vertices as the cases describe them: operators by name, state by subtask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, TaskStateEntry
from flykka.messages.graph.job_graph import JobVertex, Operator, OperatorKind, OperatorRef
from flykka.messages.state.handles import OperatorListState, OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId


def chained_vertex(
    operators: Sequence[str], parallelism: int, max_parallelism: int, *, configured: bool = False
) -> JobVertex:
    return JobVertex(
        vertex_id=JobVertexId("+".join(operators)),
        name="+".join(operators),
        operators=tuple(
            Operator(
                operator_id=OperatorId(name),
                ref=OperatorRef(uid=name, fingerprint=""),
                name=name,
                kind=OperatorKind.STATELESS,
            )
            for name in operators
        ),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        is_max_parallelism_configured=configured,
    )


def checkpoint_of_states(
    states: Mapping[JobVertexId, tuple[JobVertex, Sequence[TaskStateSnapshot | None]]],
) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=1,
        timestamp_ms=0,
        duration_ms=0,
        task_states=tuple(
            TaskStateEntry(
                vertex_id=vertex_id,
                subtask=subtask,
                parallelism=of.parallelism,
                max_parallelism=of.max_parallelism,
                state=state,
            )
            for vertex_id, (of, snapshots) in states.items()
            for subtask, state in enumerate(snapshots)
        ),
    )


def operator_state(operator: str, lists: Sequence[OperatorListState]) -> OperatorSubtaskState:
    return OperatorSubtaskState(operator_id=OperatorId(operator), operator_state=tuple(lists))


def keyed_state(operator: str, subtask: int, of: JobVertex) -> OperatorSubtaskState:
    """Return keyed state of one subtask of an operator, in one file named after the subtask."""
    owned = key_groups_of(subtask, of.max_parallelism, of.parallelism)
    handle = SharedStateHandle(state_id=str(subtask), path=str(subtask), rows=1, size_bytes=1, key_groups=owned)
    return OperatorSubtaskState(operator_id=OperatorId(operator), shared=(handle,), key_groups=owned)
