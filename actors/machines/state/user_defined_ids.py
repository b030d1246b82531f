"""State that was stored under an id which the user has named (`set_uid_hash`), under the id that the operator has now.

So a program that was run without uids can be given them: Flink's user-defined operator ids. An id that the checkpoint
does not have is no error: then the operator's own is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flykka.actors.machines.state.handles import with_operators
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.wire.ids import OperatorId


def under_current_ids(checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex]) -> CompletedCheckpoint:
    """The same checkpoint, with the state of these operators under their ids of today."""
    current = current_ids(vertices)
    if not current:
        return checkpoint

    def moved(state: OperatorSubtaskState) -> OperatorSubtaskState:
        return replace(state, operator_id=current.get(state.operator_id, state.operator_id))

    coordinators = tuple(
        replace(state, operator_id=current.get(state.operator_id, state.operator_id))
        for state in checkpoint.coordinator_states
    )
    return replace(with_operators(checkpoint, moved), coordinator_states=coordinators)


def current_ids(vertices: Iterable[JobVertex]) -> dict[OperatorId, OperatorId]:
    """The ids of today, by those that the user has named."""
    return {
        operator.user_defined_operator_id: operator.operator_id
        for vertex in vertices
        for operator in vertex.operators
        if operator.user_defined_operator_id is not None
    }
