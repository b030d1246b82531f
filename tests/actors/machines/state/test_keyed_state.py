"""The bounds of keyed state that a checkpoint records, and the selection of state by these bounds."""

from __future__ import annotations

import pytest

from flykka.actors.machines.state.keyed_state import StatePart, keyed_state, restored_keyed_state
from flykka.actors.machines.state.segments import ResultBounds, Written
from flykka.messages.state.handles import EventTimeBounds, KeyGroupRange, OperatorSubtaskState, SharedStateHandle
from flykka.messages.wire.codec import decode
from flykka.messages.wire.ids import OperatorId

ALL = KeyGroupRange(start=0, end=127)


def bounds(closed_to_ms: int | None, emitted_to_ms: int | None) -> ResultBounds:
    return ResultBounds(closed_to_ms=closed_to_ms, emitted_to_ms=emitted_to_ms)


def state_with_bounds(of_all: ResultBounds, *of_handles: ResultBounds) -> OperatorSubtaskState:
    handles = [
        SharedStateHandle(state_id=str(number), path=str(number), rows=1, size_bytes=1, key_groups=ALL)
        for number in range(len(of_handles))
    ]
    places = {
        Written(handles=(handle,), checkpoint_id=1): each for handle, each in zip(handles, of_handles, strict=True)
    }
    return keyed_state(OperatorId("windows"), ALL, places, bounds=of_all)


def parts(state: OperatorSubtaskState) -> tuple[StatePart, ...]:
    (found,) = restored_keyed_state([state]).parts.values()
    return found


def test_bounds_are_decoded_as_they_were_encoded() -> None:
    of_handles = (bounds(10, 20), bounds(15, 20), bounds(10, 30), bounds(10, 10), bounds(25, 40))

    read = restored_keyed_state([state_with_bounds(bounds(10, 20), *of_handles)])

    assert read.bounds == bounds(10, 20)
    assert tuple(part.bounds for part in read.parts[""]) == of_handles


@pytest.mark.parametrize("bound", [None, 20])
def test_results_emitted_only_once_are_recorded_in_the_original_format(bound: int | None) -> None:
    state = state_with_bounds(bounds(bound, bound), bounds(bound, bound), bounds(30, 30))

    noted = decode(state.keyed_state)

    assert isinstance(noted, EventTimeBounds)
    assert (noted.emitted_to_ms, noted.closed_to_ms, noted.emitted) == (bound, None, ())
    assert [(each.state_id, each.closed_to_ms) for each in noted.closed] == [("1", 30)]


def test_the_emitted_bounds_of_several_state_parts_are_kept() -> None:
    pieces = (state_with_bounds(bounds(10, 20), bounds(10, 20)), state_with_bounds(bounds(15, 30), bounds(15, 30)))

    read = restored_keyed_state(pieces)

    assert read.bounds == bounds(10, 20)
    assert [part.bounds for part in read.parts[""]] == [bounds(10, 20), bounds(15, 30)]


def test_a_subtask_snapshot_without_results_leaves_every_result_pending() -> None:
    read = restored_keyed_state(
        [state_with_bounds(bounds(10, 20), bounds(10, 20)), state_with_bounds(bounds(None, None), bounds(None, None))]
    )

    assert read.bounds == bounds(None, None)


def test_rows_of_emitted_results_are_dropped_if_results_are_emitted_only_once() -> None:
    read = restored_keyed_state([state_with_bounds(bounds(10, 20), bounds(10, 30), bounds(25, 20))]).emitted_once()

    assert read.bounds == bounds(20, 20)
    assert [part.bounds.closed_to_ms for part in read.parts[""]] == [30, 25]
