"""Who gets which state of a checkpoint (Flink's StateAssignmentOperation).

State belongs to operators, not to the chains or vertices they happen to run in. At the parallelism of the checkpoint
each subtask gets its own back. At another one, keyed state goes to every subtask whose key groups it touches, and the
reader leaves out what is not its own; an operator's own bytes mean nothing to anybody else and cannot be divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flykka.actors.errors import RescaleNotSupportedError, StateWithoutOperatorError
from flykka.actors.state.key_groups import intersection, key_groups_of
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.ids import JobVertexId, OperatorId
from flykka.messages.job_graph import JobVertex, Operator
from flykka.messages.state import OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot

StateAssignment = dict[tuple[JobVertexId, int], TaskStateSnapshot]
"""What each subtask starts from, by vertex and subtask; those without state are not in it."""


@dataclass(slots=True, kw_only=True)
class _OperatorState:
    parallelism: int
    max_parallelism: int
    by_subtask: dict[int, list[OperatorSubtaskState]] = field(default_factory=dict)

    def states(self) -> Iterable[OperatorSubtaskState]:
        return (state for states in self.by_subtask.values() for state in states)


def assign(
    checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex], *, allow_non_restored_state: bool = False
) -> StateAssignment:
    """What each subtask of the job starts from; operators that the checkpoint does not know start empty.

    Raises:
        RescaleNotSupportedError: an operator's state cannot be handed to as many subtasks as it has now.
        StateWithoutOperatorError: state of the checkpoint has no operator any more, and that is not allowed.
    """
    states = _by_operator(checkpoint)
    assignment: StateAssignment = {}
    for vertex in vertices:
        owned = [(operator, states.pop(operator.operator_id, None)) for operator in vertex.operators]
        for subtask in range(vertex.parallelism):
            operators = tuple(
                piece
                for operator, state in owned
                if state is not None
                for piece in _of_subtask(vertex, operator, state, subtask)
            )
            if operators:
                assignment[vertex.vertex_id, subtask] = TaskStateSnapshot(operators=operators)
    left_over = [operator_id for operator_id, state in states.items() if any(map(_holds_state, state.states()))]
    if left_over and not allow_non_restored_state:
        raise StateWithoutOperatorError(checkpoint.checkpoint_id, tuple(sorted(left_over)))
    return assignment


def _by_operator(checkpoint: CompletedCheckpoint) -> dict[OperatorId, _OperatorState]:
    operators: dict[OperatorId, _OperatorState] = {}
    for entry in checkpoint.task_states:
        for state in entry.state.operators if entry.state is not None else ():
            operator = operators.setdefault(
                state.operator_id,
                _OperatorState(parallelism=entry.parallelism, max_parallelism=entry.max_parallelism),
            )
            operator.by_subtask.setdefault(entry.subtask, []).append(state)
    return operators


def _of_subtask(
    vertex: JobVertex, operator: Operator, old: _OperatorState, subtask: int
) -> Iterable[OperatorSubtaskState]:
    if vertex.max_parallelism != old.max_parallelism and any(state.key_groups for state in old.states()):
        raise RescaleNotSupportedError(
            f"the keys of {operator.name} ({operator.ref.uid}) were divided into {old.max_parallelism} key groups,"
            f" the job wants {vertex.max_parallelism}: its maximum parallelism has to stay"
        )
    if vertex.parallelism == old.parallelism:
        return old.by_subtask.get(subtask, ())
    if any(_is_indivisible(state) for state in old.states()):
        raise RescaleNotSupportedError(
            f"{operator.name} ({operator.ref.uid}) has state that cannot be divided: it ran with parallelism"
            f" {old.parallelism} and cannot start with {vertex.parallelism}"
        )
    return _keyed(vertex, operator.operator_id, old, subtask)


def _keyed(
    vertex: JobVertex, operator_id: OperatorId, old: _OperatorState, subtask: int
) -> Iterable[OperatorSubtaskState]:
    mine = key_groups_of(subtask, vertex.max_parallelism, vertex.parallelism)
    shared: dict[str, SharedStateHandle] = {}
    pieces = []
    for state in old.states():
        if state.key_groups is not None and intersection(state.key_groups, mine) is not None:
            pieces.append(state)
            shared.update((handle.state_id, handle) for handle in state.shared)
    if not pieces:
        return
    exclusive = tuple(handle for piece in pieces for handle in piece.exclusive)
    yield OperatorSubtaskState(
        operator_id=operator_id, shared=tuple(shared.values()), key_groups=mine, exclusive=exclusive
    )


def _holds_state(state: OperatorSubtaskState) -> bool:
    return bool(state.operator_state or state.shared or state.exclusive)


def _is_indivisible(state: OperatorSubtaskState) -> bool:
    return bool(state.operator_state) or (state.key_groups is None and _holds_state(state))
