"""State follows operators to their subtasks, or the restore says why it cannot."""

from __future__ import annotations

import pytest

from flykka.actors.errors import RescaleNotSupportedError, StateWithoutOperatorError
from flykka.actors.state.assignment import assign
from flykka.actors.state.key_groups import key_groups_of
from flykka.messages.checkpoint_metadata import CompletedCheckpoint, TaskStateEntry
from flykka.messages.ids import JobId, JobVertexId, OperatorId
from flykka.messages.job_graph import JobVertex, Operator, OperatorKind, OperatorRef
from flykka.messages.state import KeyGroupRange, OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot

MAX = 128


def vertex(name: str, *operators: str, parallelism: int = 2, max_parallelism: int = MAX) -> JobVertex:
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
    )


def keyed(operator: str, *shared: str, subtask: int = 0, parallelism: int = 2) -> OperatorSubtaskState:
    return OperatorSubtaskState(
        operator_id=OperatorId(operator),
        shared=tuple(SharedStateHandle(state_id=name, path=name, rows=1, size_bytes=1) for name in shared),
        key_groups=key_groups_of(subtask, MAX, parallelism),
    )


def opaque(operator: str, data: bytes = b"offsets") -> OperatorSubtaskState:
    return OperatorSubtaskState(operator_id=OperatorId(operator), operator_state=data)


def checkpoint(*subtasks: tuple[OperatorSubtaskState, ...] | None, vertex_id: str = "old") -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=4,
        timestamp_ms=0,
        duration_ms=0,
        task_states=tuple(
            TaskStateEntry(
                vertex_id=JobVertexId(vertex_id),
                subtask=subtask,
                parallelism=len(subtasks),
                max_parallelism=MAX,
                state=None if operators is None else TaskStateSnapshot(operators=operators),
            )
            for subtask, operators in enumerate(subtasks)
        ),
    )


def test_at_the_same_parallelism_each_subtask_gets_its_own_back() -> None:
    states = [(opaque("source", b"0"), keyed("window", "x")), (opaque("source", b"1"), keyed("window", "y", subtask=1))]

    assigned = assign(checkpoint(*states), [vertex("old", "source", "window")])

    assert assigned == {
        (JobVertexId("old"), 0): TaskStateSnapshot(operators=states[0]),
        (JobVertexId("old"), 1): TaskStateSnapshot(operators=states[1]),
    }


def test_an_operator_keeps_all_its_parts() -> None:
    parts = (opaque("source", b"reader"), opaque("source", b"bridge"))

    assigned = assign(checkpoint(parts), [vertex("old", "source", parallelism=1)])

    assert assigned[JobVertexId("old"), 0].operators == parts


def test_state_follows_its_operator_into_another_chain() -> None:
    states = (opaque("a", b"a"), opaque("b", b"b"))

    assigned = assign(checkpoint(states), [vertex("v1", "b", parallelism=1), vertex("v2", "new", "a", parallelism=1)])

    assert assigned == {
        (JobVertexId("v1"), 0): TaskStateSnapshot(operators=(states[1],)),
        (JobVertexId("v2"), 0): TaskStateSnapshot(operators=(states[0],)),
    }


def test_subtasks_without_state_are_left_out() -> None:
    assigned = assign(checkpoint((opaque("a"),), None), [vertex("old", "a"), vertex("stateless", "map")])

    assert list(assigned) == [(JobVertexId("old"), 0)]


def test_keyed_state_goes_to_every_subtask_whose_key_groups_it_touches() -> None:
    states = [(keyed("window", "x", subtask=0, parallelism=3),), (keyed("window", "y", subtask=1, parallelism=3),)]

    assigned = assign(
        checkpoint(*states, (keyed("window", "z", subtask=2, parallelism=3),)), [vertex("old", "window", parallelism=2)]
    )

    read = [
        (state.key_groups, [handle.state_id for handle in state.shared])
        for snapshot in assigned.values()
        for state in snapshot.operators
    ]
    assert read == [
        (KeyGroupRange(start=0, end=63), ["x", "y"]),
        (KeyGroupRange(start=64, end=127), ["y", "z"]),
    ]


def test_state_that_several_subtasks_refer_to_is_handed_on_once() -> None:
    states = [(keyed("window", "x", subtask=0),), (keyed("window", "x", subtask=1),)]

    assigned = assign(checkpoint(*states), [vertex("old", "window", parallelism=1)])

    [state] = assigned[JobVertexId("old"), 0].operators
    assert [handle.state_id for handle in state.shared] == ["x"]


def test_an_operators_own_bytes_cannot_be_divided() -> None:
    with pytest.raises(RescaleNotSupportedError, match=r"Source \(source\) .* parallelism 1 and cannot start with 2"):
        assign(checkpoint((opaque("source"),)), [vertex("old", "source", parallelism=2)])


def test_an_operator_without_anything_in_its_state_may_be_rescaled() -> None:
    empty = OperatorSubtaskState(operator_id=OperatorId("map"))

    assert assign(checkpoint((empty,)), [vertex("old", "map", parallelism=2)]) == {}


def test_the_number_of_key_groups_has_to_stay() -> None:
    with pytest.raises(RescaleNotSupportedError, match="divided into 128 key groups, the job wants 256"):
        assign(
            checkpoint((keyed("window", "x", parallelism=1),)),
            [vertex("old", "window", parallelism=1, max_parallelism=256)],
        )


def test_state_is_not_lost_unless_that_is_allowed() -> None:
    state = checkpoint((opaque("a"), opaque("gone")))
    vertices = [vertex("old", "a", parallelism=1)]

    with pytest.raises(StateWithoutOperatorError, match=r"checkpoint 4 .*: gone"):
        assign(state, vertices)

    assert list(assign(state, vertices, allow_non_restored_state=True)) == [(JobVertexId("old"), 0)]
