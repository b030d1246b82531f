"""Comparison of two traces: all differences, the first difference, and ignored differences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.diff.first_difference import Comparison, Difference, first_difference
from flykka.runtime.trace.diff.value_comparator import ABSENT, FieldDifference, ValueComparator
from flykka.runtime.trace.effects import Effect, Send, StartTimer, Undecoded
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from tests.runtime.scripted_actors import says

ALICE, BOB = Ref("/user/alice", 1), Ref("/user/bob", 1)
ONE, TWO = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
THREE = "00000000000000000000000000000003"


def turn(
    number: int,
    recipient: Ref,
    text: str,
    *effects: Effect,
    sender: Ref | None = None,
    cause: int | None = None,
    now_ms: int = 0,
    failure: SerializedThrowable | None = None,
) -> Turn:
    return Turn(
        sequence=number,
        now_ms=now_ms,
        recipient=recipient,
        sender=sender,
        cause=cause,
        kind="message",
        message=says(text),
        effects=effects,
        failure=failure,
    )


def difference(left: Sequence[Record], right: Sequence[Record]) -> Difference:
    found = first_difference(left, right).difference
    assert found is not None
    return found


def sequence_numbers(found: Difference) -> tuple[int | None, int | None]:
    left, right = found.left, found.right
    return None if left is None else left.sequence, None if right is None else right.sequence


def test_equal_runs_have_no_difference() -> None:
    run: list[Record] = [turn(1, ALICE, "a"), turn(2, BOB, "b"), Killed(sequence=3, now_ms=0, ref=BOB)]

    assert first_difference(run, run) == Comparison(same=3, actors=2, difference=None)


def test_times_and_interleaving_are_not_differences() -> None:
    left = [turn(1, ALICE, "a", now_ms=10), turn(2, BOB, "b"), turn(3, ALICE, "c")]
    right = [turn(5, BOB, "b"), turn(6, ALICE, "a"), turn(7, ALICE, "c", now_ms=999)]

    assert first_difference(left, right).difference is None


def test_the_first_turn_with_a_different_message_is_reported_with_the_field() -> None:
    left = [turn(1, ALICE, "a"), turn(2, ALICE, "b"), turn(3, ALICE, "c")]
    right = [turn(1, ALICE, "a"), turn(2, ALICE, "x"), turn(3, ALICE, "c")]

    found = difference(left, right)

    assert (found.actor, found.number, sequence_numbers(found)) == ("/user/alice", 2, (2, 2))
    assert found.fields == (FieldDifference("message.text", "b", "x"),)


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        (turn(1, ALICE, "a", sender=BOB), turn(1, ALICE, "a"), "sender"),
        (turn(1, ALICE, "a", Send(target=BOB, message=says("x"))), turn(1, ALICE, "a"), "effects[0]"),
        (
            turn(1, ALICE, "a", Send(target=BOB, message=says("x"))),
            turn(1, ALICE, "a", Send(target=BOB, message=says("y"))),
            "effects[0].message.text",
        ),
        (
            turn(1, ALICE, "a", Send(target=BOB, message=says("x"))),
            turn(1, ALICE, "a", Send(target=ALICE, message=says("x"))),
            "effects[0].target",
        ),
        (
            turn(1, ALICE, "a"),
            turn(1, ALICE, "a", failure=SerializedThrowable(type_name="OSError", message="boom")),
            "failure",
        ),
        (turn(1, ALICE, "a"), Killed(sequence=1, now_ms=0, ref=ALICE), "effects"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_sender_effects_and_end_of_a_turn_are_compared(left: Record, right: Record, path: str) -> None:
    assert difference([left], [right]).fields[0].path == path


def test_of_several_differences_the_first_one_in_the_left_run_is_reported() -> None:
    left = [turn(1, BOB, "early"), turn(2, ALICE, "late")]
    right = [turn(1, ALICE, "LATE"), turn(2, BOB, "EARLY")]

    assert difference(left, right).actor == "/user/bob"


def test_a_run_that_lacks_turns_of_an_actor_is_reported() -> None:
    longer = [turn(1, ALICE, "a"), turn(2, ALICE, "b")]

    assert sequence_numbers(difference(longer, longer[:1])) == (2, None)
    assert sequence_numbers(difference(longer[:1], longer)) == (None, 2)


def test_a_turn_that_is_later_in_the_other_run_is_reordered() -> None:
    left = [turn(1, ALICE, "a"), turn(2, ALICE, "b")]
    right = [turn(1, ALICE, "b"), turn(2, ALICE, "a")]

    assert difference(left, right).moved_to == 2


def test_the_causes_of_both_sides_are_listed_nearest_first() -> None:
    left = [turn(1, BOB, "go"), turn(2, BOB, "on", cause=1), turn(3, ALICE, "a", cause=2)]
    right = [turn(1, BOB, "go"), turn(2, BOB, "on", cause=1), turn(3, ALICE, "b", cause=1)]

    found = difference(left, right)

    assert [each.turn for each in found.left_causes] == [2, 1]
    assert [each.turn for each in found.right_causes] == [1]


def test_consistently_renamed_ids_are_not_differences() -> None:
    def run(job: str) -> list[Record]:
        actor = Ref(f"/user/job-{job}", 1)
        return [turn(1, actor, f"begin {job}"), turn(2, ALICE, f"hear of {job}_1", sender=actor)]

    assert first_difference(run(ONE), run(TWO)).difference is None
    assert first_difference(run(ONE), run(TWO), renames=False).difference is not None


def test_an_id_that_maps_to_two_ids_is_a_difference() -> None:
    left = [turn(1, ALICE, ONE), turn(2, ALICE, ONE)]
    right = [turn(1, ALICE, TWO), turn(2, ALICE, THREE)]

    assert difference(left, right).number == 2
    assert difference(right, left).number == 2


def test_only_requested_parts_are_compared() -> None:
    left = [turn(1, ALICE, "a"), turn(2, BOB, "b")]
    right = [turn(1, ALICE, "x"), turn(2, BOB, "b")]

    found = first_difference(
        left, right, is_compared=lambda record: isinstance(record, Turn) and record.recipient == BOB
    )

    assert found == Comparison(same=1, actors=1, difference=None)
    assert first_difference(left, right, ignored=("text",)).difference is None


def test_the_first_difference_is_found_without_reading_all_records() -> None:
    def endless(text: str) -> list[Record]:
        return [turn(1, ALICE, text), *(turn(number, BOB, "on") for number in range(2, 5_000))]

    left, right = iter(endless("a")), iter(endless("b"))

    assert first_difference(left, right).difference is not None
    assert sum(1 for _ in left) > 1_000


def test_a_dead_letter_is_compared_with_its_reason() -> None:
    def letter(reason: str) -> DeadLetterRecord:
        return DeadLetterRecord(sequence=1, now_ms=0, message=says("a"), sender=None, recipient=ALICE, reason=reason)

    assert difference([letter("killed")], [letter("stopped")]).fields == (
        FieldDifference("reason", "killed", "stopped"),
    )


def message(data: bytes) -> Undecoded:
    return Undecoded(data=data, reason="not known here")


@pytest.mark.parametrize(
    ("left", "right", "unlike"),
    [
        ((1, 2), (1, 3), [FieldDifference("[1]", 2, 3)]),
        ((1,), (1, 2), [FieldDifference("[1]", ABSENT, 2)]),
        ({"a": 1}, {"b": 1}, [FieldDifference("a", 1, ABSENT), FieldDifference("b", ABSENT, 1)]),
        (1, "1", [FieldDifference("", 1, "1")]),
        (StartTimer(key="k", first_ms=1, message=says("x"), delay_ms=None),
         StartTimer(key="k", first_ms=2, message=says("x"), delay_ms=None), []),
        (message(b"\x81\xa1a\x01"), message(b"\x81\xa1a\x02"), [FieldDifference("a", 1, 2)]),
        (message(b"\xc1"), message(b"\xc1\xc1"), [FieldDifference("", b"\xc1", b"\xc1\xc1")]),
        (Ref("/user/a", 1), Ref("/user/a", 2), []),
        (Ref("/user/a", 1), Ref("/user/b", 1), [FieldDifference("", "/user/a", "/user/b")]),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_compared_field_by_field(left: object, right: object, unlike: list[FieldDifference]) -> None:
    likeness = ValueComparator(ignored=("*_ms", "incarnation"))

    assert list(likeness.differences(left, right)) == unlike


def test_a_message_of_another_class_differs_as_a_whole() -> None:
    class Other(Message):
        pass

    (found,) = ValueComparator().differences(says("a"), Other(), "message")

    assert found.path == "message"
