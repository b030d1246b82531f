"""State is assigned to the subtasks of its operators, or the restore fails with a reason."""

from __future__ import annotations

import pytest

from flykka.actors.errors import RescaleNotSupportedError, StateWithoutOperatorError
from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorCoordinatorState, TaskStateEntry
from flykka.messages.graph.job_graph import JobVertex, Operator, OperatorKind, OperatorRef
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    KeyGroupRange,
    OperatorListState,
    OperatorStateMode,
    OperatorSubtaskState,
    SharedStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId

MAX = 128


def chained_vertex(
    name: str, *operators: str, parallelism: int = 2, max_parallelism: int = MAX, configured: bool = False
) -> JobVertex:
    return JobVertex(
        vertex_id=JobVertexId(name),
        name=name,
        operators=tuple(
            Operator(
                operator_id=OperatorId(operator),
                ref=OperatorRef(uid=operator, fingerprint=""),
                name=operator.capitalize(),
                kind=OperatorKind.STATELESS,
            )
            for operator in operators
        ),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        is_max_parallelism_configured=configured,
    )


def keyed_state(operator: str, *shared: str, subtask: int = 0, parallelism: int = 2) -> OperatorSubtaskState:
    return OperatorSubtaskState(
        operator_id=OperatorId(operator),
        shared=tuple(SharedStateHandle(state_id=name, path=name, rows=1, size_bytes=1) for name in shared),
        key_groups=key_groups_of(subtask, MAX, parallelism),
        keyed_state=b"bound",
    )


def list_state_of(
    operator: str, *elements: str, name: str = "list", mode: OperatorStateMode = OperatorStateMode.SPLIT_DISTRIBUTE
) -> OperatorSubtaskState:
    state = OperatorListState(name=name, elements=tuple(each.encode() for each in elements), mode=mode)
    return OperatorSubtaskState(operator_id=OperatorId(operator), operator_state=(state,))


def checkpoint_of_subtasks(
    *subtasks: tuple[OperatorSubtaskState, ...] | None, coordinators: tuple[str, ...] = ()
) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=4,
        timestamp_ms=0,
        duration_ms=0,
        task_states=tuple(
            TaskStateEntry(
                vertex_id=JobVertexId("old"),
                subtask=subtask,
                parallelism=len(subtasks),
                max_parallelism=MAX,
                state=None if operators is None else TaskStateSnapshot(operators=operators),
            )
            for subtask, operators in enumerate(subtasks)
        ),
        coordinator_states=tuple(
            OperatorCoordinatorState(operator_id=OperatorId(each), data=b"") for each in coordinators
        ),
    )


def assigned(
    state: CompletedCheckpoint, *vertices: JobVertex, allow_non_restored_state: bool = False
) -> dict[tuple[str, int], tuple[OperatorSubtaskState, ...]]:
    made = assign(state, vertices, allow_non_restored_state=allow_non_restored_state)
    return {place: snapshot.operators for place, snapshot in made.states.items()}


def test_at_an_unchanged_parallelism_each_subtask_gets_its_own_state() -> None:
    states = [
        (list_state_of("source", "0"), keyed_state("window", "x")),
        (list_state_of("source", "1"), keyed_state("window", "y", subtask=1)),
    ]

    made = assigned(checkpoint_of_subtasks(*states), chained_vertex("old", "source", "window"))

    assert made == {("old", 0): states[0], ("old", 1): states[1]}


def test_state_is_assigned_to_its_operator_in_a_different_chain() -> None:
    states = (list_state_of("a", "a"), list_state_of("b", "b"))

    made = assigned(
        checkpoint_of_subtasks(states),
        chained_vertex("v1", "b", parallelism=1),
        chained_vertex("v2", "new", "a", parallelism=1),
    )

    assert made == {("v1", 0): (states[1],), ("v2", 0): (states[0],)}


def test_subtasks_without_state_are_omitted() -> None:
    made = assigned(
        checkpoint_of_subtasks((list_state_of("a", "1"),), None),
        chained_vertex("old", "a"),
        chained_vertex("stateless", "map"),
    )

    assert list(made) == [("old", 0)]


def test_keyed_state_is_assigned_to_every_subtask_with_its_key_group_range() -> None:
    states = [(keyed_state("window", name, subtask=subtask, parallelism=3),) for subtask, name in enumerate("xyz")]

    made = assigned(checkpoint_of_subtasks(*states), chained_vertex("old", "window", parallelism=2))

    read = {
        subtask: [(state.key_groups, [handle.state_id for handle in state.shared]) for state in pieces]
        for (_, subtask), pieces in made.items()
    }
    assert read == {
        0: [(KeyGroupRange(start=0, end=42), ["x"]), (KeyGroupRange(start=43, end=63), ["y"])],
        1: [(KeyGroupRange(start=64, end=85), ["y"]), (KeyGroupRange(start=86, end=127), ["z"])],
    }
    assert all(state.keyed_state == b"bound" for pieces in made.values() for state in pieces)


def test_the_fired_bound_of_a_window_operator_is_restored_without_rows() -> None:
    made = assigned(
        checkpoint_of_subtasks((keyed_state("window"),), (keyed_state("window", subtask=1),)),
        chained_vertex("old", "window", parallelism=1),
    )

    assert [state.keyed_state for state in made["old", 0]] == [b"bound", b"bound"]


def test_the_elements_of_a_split_list_are_redistributed() -> None:
    state = checkpoint_of_subtasks((list_state_of("sink", "a", "b", "c"),), (list_state_of("sink", "d"),))

    made = assigned(state, chained_vertex("old", "sink", parallelism=4))

    elements = [
        [element for part in made["old", subtask] for each in part.operator_state for element in each.elements]
        for subtask in range(4)
    ]
    assert elements == [[b"a"], [b"b"], [b"c"], [b"d"]]


def test_union_state_is_sent_to_all_subtasks_at_an_unchanged_parallelism() -> None:
    states = [(list_state_of("op", name, mode=OperatorStateMode.UNION),) for name in "ab"]

    made = assigned(checkpoint_of_subtasks(*states), chained_vertex("old", "op"))

    for subtask in range(2):
        [state] = made["old", subtask]
        assert [each.elements for each in state.operator_state] == [(b"a",), (b"b",)]


def test_an_operator_with_empty_state_gets_no_state() -> None:
    empty = OperatorSubtaskState(operator_id=OperatorId("map"))

    assert assigned(checkpoint_of_subtasks((empty,)), chained_vertex("old", "map", parallelism=2)) == {}


def test_a_derived_number_of_key_groups_is_replaced_by_the_checkpoints() -> None:
    made = assign(
        checkpoint_of_subtasks((keyed_state("window", "x", parallelism=1),)),
        [chained_vertex("old", "window", parallelism=1, max_parallelism=256)],
    )

    assert made.max_parallelism == {"old": MAX}
    assert made.states[JobVertexId("old"), 0].operators[0].key_groups == KeyGroupRange(start=0, end=MAX - 1)


def test_a_configured_number_of_key_groups_must_equal_the_checkpoints() -> None:
    wider = chained_vertex("old", "window", parallelism=1, max_parallelism=256, configured=True)

    with pytest.raises(RescaleNotSupportedError, match=r"Window \(window\) ran with the maximum parallelism 128.* 256"):
        assign(checkpoint_of_subtasks((keyed_state("window", "x", parallelism=1),)), [wider])


def test_the_parallelism_never_exceeds_the_key_groups_of_the_checkpoint() -> None:
    too_wide = chained_vertex("old", "source", parallelism=129, max_parallelism=256)

    with pytest.raises(RescaleNotSupportedError, match=r"the parallelism of Source \(source\) is 129, .* 128"):
        assign(checkpoint_of_subtasks((list_state_of("source", "1"),)), [too_wide])


def test_unassigned_state_is_refused_unless_allowed() -> None:
    state = checkpoint_of_subtasks((list_state_of("a", "1"), list_state_of("gone", "2")))
    vertices = [chained_vertex("old", "a", parallelism=1)]

    with pytest.raises(StateWithoutOperatorError, match=r"checkpoint 4 .*: gone"):
        assign(state, vertices)

    made = assign(state, vertices, allow_non_restored_state=True)
    assert list(made.states) == [(JobVertexId("old"), 0)]
    assert made.non_restored == ("gone",)


def test_splits_of_a_removed_source_are_refused() -> None:
    with pytest.raises(StateWithoutOperatorError, match=r"checkpoint 4 .*: source"):
        assign(checkpoint_of_subtasks((), coordinators=("source",)), [chained_vertex("old", "a", parallelism=1)])


def test_a_removed_operator_without_state_is_accepted() -> None:
    empty = OperatorSubtaskState(operator_id=OperatorId("gone"), operator_state=(OperatorListState(name="list"),))

    assert assigned(checkpoint_of_subtasks((empty,)), chained_vertex("old", "a", parallelism=1)) == {}


def test_assigned_keyed_state_includes_its_exclusive_files() -> None:
    copied = ExclusiveStateHandle(path="copy", size_bytes=1)
    state = OperatorSubtaskState(
        operator_id=OperatorId("window"), key_groups=key_groups_of(0, MAX, 1), exclusive=(copied,)
    )

    made = assigned(checkpoint_of_subtasks((state,)), chained_vertex("old", "window", parallelism=2))

    assert [piece.exclusive for pieces in made.values() for piece in pieces] == [(copied,), (copied,)]
