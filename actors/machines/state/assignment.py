"""Assigns the state of a checkpoint to subtasks (Flink's StateAssignmentOperation).

State belongs to operators, not to the chains or vertices in which they run. If the parallelism is that of the
checkpoint, each subtask gets its own state back. Otherwise keyed state goes to every subtask whose key groups overlap
with it, and the subtask reads only its own rows; the lists of operator state are redistributed. Watermarks: see
`watermarks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from flykka.actors.errors import RescaleNotSupportedError, StateWithoutOperatorError
from flykka.actors.machines.state.handles import with_operators
from flykka.actors.machines.state.in_flight import InFlightState, assign_in_flight, is_in_flight
from flykka.actors.machines.state.key_groups import intersection, key_groups_of, owner
from flykka.actors.machines.state.operator_state import repartition
from flykka.actors.machines.state.schema_evolution import has_changed
from flykka.actors.machines.state.watermarks import assigned_watermarks, sources_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorCoordinatorState
from flykka.messages.graph.job_graph import JobVertex, Operator, OperatorKind
from flykka.messages.state.handles import (
    OperatorListState,
    OperatorSubtaskState,
    StateSchema,
    TaskStateSnapshot,
    WatermarkState,
)
from flykka.messages.wire.ids import JobVertexId, OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAssignment:
    """The state from which a job starts.

    `states` is by vertex and subtask, without subtasks that have no state. `coordinators` are the states of operator
    coordinators, by current ids. `max_parallelism` has the vertices that adopt the number of key groups from the
    checkpoint. `non_restored` are operators whose state is dropped.
    """

    states: Mapping[tuple[JobVertexId, int], TaskStateSnapshot] = field(default_factory=dict)
    max_parallelism: Mapping[JobVertexId, int] = field(default_factory=dict)
    non_restored: tuple[OperatorId, ...] = ()
    coordinators: tuple[OperatorCoordinatorState, ...] = ()


def assign(
    checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex], *, allow_non_restored_state: bool = False
) -> StateAssignment:
    """Assign each subtask of the job its state. Operators that the checkpoint does not have start empty.

    Raises:
        RescaleNotSupportedError: an operator cannot have its parallelism or its number of key groups.
        StateWithoutOperatorError: the job lacks an operator for some state, and that is not allowed.
    """
    vertices = tuple(vertices)
    checkpoint = under_current_ids(checkpoint, vertices)
    states = _by_operator(checkpoint)
    left_over = _left_over(checkpoint, states, vertices)
    if left_over and not allow_non_restored_state:
        raise StateWithoutOperatorError(checkpoint.checkpoint_id, left_over)
    schemas = _schemas(checkpoint, vertices)
    assigned: dict[tuple[JobVertexId, int], tuple[OperatorSubtaskState, ...]] = {}
    taken_over: dict[JobVertexId, int] = {}
    for vertex in vertices:
        own = [
            (operator, state)
            for operator in vertex.operators
            if (state := states.get(operator.operator_id)) is not None and state.holds_state
        ]
        max_parallelism = _max_parallelism(vertex, own)
        if max_parallelism != vertex.max_parallelism:
            taken_over[vertex.vertex_id] = max_parallelism
        to_assign = [
            _Redistribution(operator, state, vertex.parallelism, max_parallelism, schemas.get(operator.operator_id))
            for operator, state in own
        ]
        for subtask in range(vertex.parallelism) if to_assign else ():
            operators = tuple(piece for each in to_assign for piece in each.of_subtask(subtask))
            if operators:
                assigned[vertex.vertex_id, subtask] = operators
    in_flight_states = {
        operator_id: state.in_flight for operator_id, state in states.items() if state.in_flight.by_subtask
    }
    for place, in_flight in assign_in_flight(in_flight_states, vertices, taken_over).items():
        assigned[place] = (*assigned.get(place, ()), in_flight)
    for place, watermark in _watermarks(checkpoint, states, vertices):
        assigned[place] = (*assigned.get(place, ()), watermark)
    snapshots = {place: TaskStateSnapshot(operators=operators) for place, operators in assigned.items()}
    return StateAssignment(
        states=snapshots,
        max_parallelism=taken_over,
        non_restored=left_over,
        coordinators=checkpoint.coordinator_states,
    )


@dataclass(slots=True, kw_only=True)
class _OperatorState:
    parallelism: int
    max_parallelism: int
    in_flight: InFlightState
    by_subtask: dict[int, list[OperatorSubtaskState]] = field(default_factory=dict)
    watermarks: dict[int, WatermarkState] = field(default_factory=dict)

    @property
    def holds_state(self) -> bool:
        return bool(self.by_subtask or self.in_flight.by_subtask)

    def states(self) -> Iterator[OperatorSubtaskState]:
        return (state for subtask in sorted(self.by_subtask) for state in self.by_subtask[subtask])

    def lists(self) -> list[list[OperatorListState]]:
        return [
            [each for state in self.by_subtask.get(subtask, ()) for each in state.operator_state]
            for subtask in range(self.parallelism)
        ]

    @property
    def is_keyed(self) -> bool:
        return any(state.key_groups is not None for state in self.states())


def _by_operator(checkpoint: CompletedCheckpoint) -> dict[OperatorId, _OperatorState]:
    operators: dict[OperatorId, _OperatorState] = {}
    for entry in checkpoint.task_states:
        for state in entry.state.operators if entry.state is not None else ():
            operator = operators.get(state.operator_id)
            if operator is None:
                operator = operators[state.operator_id] = _OperatorState(
                    parallelism=entry.parallelism,
                    max_parallelism=entry.max_parallelism,
                    in_flight=InFlightState(parallelism=entry.parallelism),
                )
            if state.watermark is not None:
                operator.watermarks[entry.subtask] = state.watermark
                continue
            by_subtask = operator.in_flight.by_subtask if is_in_flight(state) else operator.by_subtask
            by_subtask.setdefault(entry.subtask, []).append(state)
    return operators


def _watermarks(
    checkpoint: CompletedCheckpoint, states: Mapping[OperatorId, _OperatorState], vertices: tuple[JobVertex, ...]
) -> Iterator[tuple[tuple[JobVertexId, int], OperatorSubtaskState]]:
    coordinated = {each.operator_id for each in checkpoint.coordinator_states}
    sources = sources_of(vertices)
    for vertex in vertices:
        continues = sources[vertex.vertex_id] <= coordinated
        for operator in vertex.operators:
            old = states.get(operator.operator_id)
            if old is None:
                continue
            for subtask, watermark in assigned_watermarks(
                old.watermarks, old.parallelism, vertex.parallelism, continues=continues
            ):
                state = OperatorSubtaskState(operator_id=operator.operator_id, watermark=watermark)
                yield (vertex.vertex_id, subtask), state


def _left_over(
    checkpoint: CompletedCheckpoint, states: Mapping[OperatorId, _OperatorState], vertices: Iterable[JobVertex]
) -> tuple[OperatorId, ...]:
    with_state = {
        operator_id
        for operator_id, state in states.items()
        if state.in_flight.by_subtask or any(map(_holds_state, state.states()))
    }
    operators = [operator for vertex in vertices for operator in vertex.operators]
    coordinated = {
        operator.operator_id
        for operator in operators
        if operator.has_coordinator or operator.kind is OperatorKind.SOURCE
    }
    without_operator = with_state - {operator.operator_id for operator in operators}
    without_operator |= {coordinator.operator_id for coordinator in checkpoint.coordinator_states} - coordinated
    return tuple(sorted(without_operator))


def _schemas(checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex]) -> dict[OperatorId, StateSchema | None]:
    ids = current_ids(vertices)
    return {ids.get(each.operator_id, each.operator_id): each.state_schema for each in checkpoint.operators}


def _max_parallelism(vertex: JobVertex, own: Iterable[tuple[Operator, _OperatorState]]) -> int:
    """Return the number of key groups of the vertex. With keyed state it is that of the checkpoint."""
    max_parallelism = vertex.max_parallelism
    for operator, state in sorted(own, key=lambda each: each[1].is_keyed):
        label = f"{operator.name} ({operator.ref.uid})"
        if vertex.parallelism > state.max_parallelism:
            raise RescaleNotSupportedError(
                f"the parallelism of {label} is {vertex.parallelism}, but its maximum parallelism in the checkpoint is"
                f" {state.max_parallelism}: set_parallelism(...) must not exceed it"
            )
        if vertex.is_max_parallelism_configured and vertex.max_parallelism != state.max_parallelism:
            raise RescaleNotSupportedError(
                f"{label} ran with the maximum parallelism {state.max_parallelism}, but the job sets it to"
                f" {vertex.max_parallelism}: it determines the key groups and cannot change; use"
                f" set_max_parallelism({state.max_parallelism}), or leave it unset"
            )
        max_parallelism = state.max_parallelism
    return max_parallelism


class _Redistribution:
    """Redistributes one operator's state to its subtasks.

    If the parallelism changes, `exclusive` files are assigned with keyed state only: elements of lists refer to the
    other files.
    """

    def __init__(
        self,
        operator: Operator,
        old: _OperatorState,
        parallelism: int,
        max_parallelism: int,
        was: StateSchema | None,
    ) -> None:
        self._operator = operator
        now = operator.state_schema
        self._written_as = None if was is None or now is None or not has_changed(was, now) else was
        self._old = old
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism

    def of_subtask(self, subtask: int) -> Iterator[OperatorSubtaskState]:
        lists = self._lists[subtask]
        if lists:
            yield OperatorSubtaskState(operator_id=self._operator.operator_id, operator_state=tuple(lists))
        for state in self._keyed(subtask):
            if _holds_state(state):
                is_written = state.key_groups is not None and self._written_as is not None
                yield replace(state, written_as=self._written_as) if is_written else state

    @cached_property
    def _lists(self) -> list[list[OperatorListState]]:
        return repartition(self._old.lists(), self._parallelism)

    def _keyed(self, subtask: int) -> Iterator[OperatorSubtaskState]:
        if self._parallelism == self._old.parallelism:
            return (replace(state, operator_state=()) for state in self._old.by_subtask.get(subtask, ()))
        return self._cut(subtask)

    def _cut(self, subtask: int) -> Iterator[OperatorSubtaskState]:
        mine = key_groups_of(subtask, self._max_parallelism, self._parallelism)
        # Subtasks with overlapping key groups are adjacent, so only these are iterated.
        first, last = (owner(end, self._max_parallelism, self._old.parallelism) for end in (mine.start, mine.end))
        for old_subtask in range(first, last + 1):
            for state in self._old.by_subtask.get(old_subtask, ()):
                touched = None if state.key_groups is None else intersection(state.key_groups, mine)
                if touched is not None:
                    yield replace(state, operator_state=(), key_groups=touched)


def _holds_state(state: OperatorSubtaskState) -> bool:
    return bool(
        any(each.elements for each in state.operator_state) or state.shared or state.exclusive or state.keyed_state
    )


def under_current_ids(checkpoint: CompletedCheckpoint, vertices: Iterable[JobVertex]) -> CompletedCheckpoint:
    """Return the checkpoint with the operators' current ids in place of ids that users have set (`set_uid_hash`).

    So uids can be added to a program that ran without them (Flink's user-defined operator ids). If the checkpoint lacks
    an id that was set, the operator's own id is used.
    """
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
    return {
        operator.user_defined_operator_id: operator.operator_id
        for vertex in vertices
        for operator in vertex.operators
        if operator.user_defined_operator_id is not None
    }
