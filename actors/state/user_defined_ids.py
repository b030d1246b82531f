"""State that was stored under an id which the user has named (`set_uid_hash`), under the id that the operator has now.

So a program that was run without uids can be given them: Flink's user-defined operator ids. An id that the checkpoint
does not have is no error: then the operator's own is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.ids import OperatorId
from flykka.messages.job_graph import JobVertex


def under_current_ids(checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex]) -> CompletedCheckpoint:
    """The same checkpoint, with the state of these operators under their ids of today."""
    current = {
        operator.user_defined_operator_id: operator.operator_id
        for vertex in vertices
        for operator in vertex.operators
        if operator.user_defined_operator_id is not None
    }
    if not current:
        return checkpoint
    return replace(
        checkpoint,
        task_states=tuple(
            entry
            if entry.state is None
            else replace(
                entry,
                state=replace(
                    entry.state,
                    operators=tuple(
                        replace(state, operator_id=_renamed(state.operator_id, current))
                        for state in entry.state.operators
                    ),
                ),
            )
            for entry in checkpoint.task_states
        ),
        coordinator_states=tuple(
            replace(state, operator_id=_renamed(state.operator_id, current)) for state in checkpoint.coordinator_states
        ),
    )


def _renamed(stored: OperatorId, current: dict[OperatorId, OperatorId]) -> OperatorId:
    return current.get(stored, stored)
