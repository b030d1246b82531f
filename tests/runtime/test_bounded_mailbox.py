"""A full bounded mailbox, with every overflow policy, and the end of its actor."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ActorDeadError, MailboxOverflowError
from flykka.runtime.events import ActorFailed, DeadLetter, MailboxOverflowed
from flykka.runtime.mailbox.message_queue import BoundedMailbox, Overflow
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import DeadLetterRecord
from tests.runtime.listener import listener, lost_in, tell_all
from tests.runtime.scripted_actors import replies, says, scripted_actor

OVERFLOWS: tuple[Overflow, ...] = ("drop_new", "drop_oldest", "fail")


@pytest.mark.parametrize(
    ("overflow", "handled", "lost", "events"),
    [("drop_new", "ab", "cd", 0), ("drop_oldest", "cd", "ab", 0), ("fail", "ab", "cd", 2)],
)
def test_an_overflowing_message_is_a_dead_letter_with_the_reason(
    system: SeededSystem, overflow: Overflow, handled: str, lost: str, events: int
) -> None:
    letters, overflows, log = lost_in(system), list[MailboxOverflowed](), list[str]()
    system.event_stream.subscribe(overflows.append, MailboxOverflowed)
    ref = listener(system, BoundedMailbox(2, overflow), log)

    tell_all(ref, *"abcd")
    system.run_until_idle()
    tell_all(ref, "e")
    system.run_until_idle()

    assert "".join(log) == f"{handled}e"
    assert [letter.message for letter in letters] == [says(text) for text in lost]
    assert {letter.reason for letter in letters} == {"the mailbox is full: its capacity is 2"}
    assert overflows == [MailboxOverflowed(ref=ref, capacity=2)] * events


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_the_sender_of_a_dropped_ask_is_notified_at_once(system: SeededSystem, overflow: Overflow) -> None:
    ref = listener(system, BoundedMailbox(1, overflow), [], {"a": replies, "b": replies})

    first, second = ref.ask(says("a"), block=False), ref.ask(says("b"), block=False)

    lost, kept = (first, second) if overflow == "drop_oldest" else (second, first)
    assert lost.done()
    with pytest.raises(MailboxOverflowError, match="/user/a#1: the mailbox is full: its capacity is 1"):
        lost.get()
    assert kept.get(timeout=1) == says("reply")


def test_an_ask_that_overflows_a_mailbox_raises_in_the_asking_turn(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    full = listener(system, BoundedMailbox(1, "fail"), [])

    def overfill(_context: ActorContext) -> None:
        full.tell(says("x"))
        full.ask(says("y"))

    system.spawn(scripted_actor([], {"go": overfill}), "asker").tell(says("go"))
    system.run_until_idle()

    assert [(failed.ref.path, failed.failure.type_name) for failed in failures] == [
        ("/user/asker", MailboxOverflowError.__name__)
    ]


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_system_messages_are_accepted_by_a_full_mailbox(system: SeededSystem, overflow: Overflow) -> None:
    log: list[str] = []
    victim = system.spawn(scripted_actor([]), "victim")

    def begin(context: ActorContext) -> None:
        context.watch(victim)
        context.timers.start_once("t", 10, says("timer"))
        context.set_receive_timeout("10 ms")

    def fill(context: ActorContext) -> None:
        tell_all(context.ref, *"xy")
        system.kill(victim)
        system.manual_clock.move_to(10)

    ref = listener(system, BoundedMailbox(2, overflow), log, {"begin": begin, "fill": fill})
    ref.tell(says("begin"))
    system.run_until_idle()
    ref.tell(says("fill"))
    system.run_until_idle()

    assert sorted(log) == ["Terminated", "begin", "fill", "timer", "x", "y"]


def test_a_full_mailbox_drops_the_oldest_queued_tell(system: SeededSystem) -> None:
    letters, log = lost_in(system), list[str]()

    def begin(context: ActorContext) -> None:
        context.timers.start_once("t", 10, says("timer"))

    def fill(context: ActorContext) -> None:
        system.manual_clock.move_to(10)  # Now the timer's message is first in the queue.
        tell_all(context.ref, *"abc")

    ref = listener(system, BoundedMailbox(2, "drop_oldest"), log, {"begin": begin, "fill": fill})
    ref.tell(says("begin"))
    ref.tell(says("fill"))
    system.run_until_idle()

    assert log == ["begin", "fill", "timer", "c"]
    assert [letter.message for letter in letters] == [says("a"), says("b")]


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_a_full_mailbox_does_not_prevent_stopping_its_actor(system: SeededSystem, overflow: Overflow) -> None:
    letters, log = lost_in(system), list[str]()
    ref = listener(system, BoundedMailbox(2, overflow), log)
    system.run_until_idle()
    tell_all(ref, *"abc")

    assert ref.stop() is True
    ref.tell(says("late"))
    with pytest.raises(ActorDeadError):
        ref.ask(says("late"))

    assert log == []
    assert sorted(str(letter.message) for letter in letters) == sorted(map(str, map(says, [*"abc", "late", "late"])))
    assert Counter(letter.reason for letter in letters)["the recipient has stopped"] == 4


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_a_lost_dead_letter_event_causes_no_further_event(system: SeededSystem, overflow: Overflow) -> None:
    log: list[str] = []
    ref = listener(system, BoundedMailbox(2, overflow), log)
    system.event_stream.subscribe(ref, DeadLetter, MailboxOverflowed)
    gone = system.spawn(scripted_actor([]), "gone")
    system.event_stream.subscribe(gone, DeadLetter)
    system.kill(gone)

    tell_all(ref, *"abcdef")
    system.run_until_idle()

    assert len(log) == 2


def test_the_trace_contains_a_message_lost_to_overflow(tmp_path: Path) -> None:
    with SeededSystem(recorder=TraceRecorder(tmp_path / "trace")) as system:
        tell_all(listener(system, BoundedMailbox(1), []), *"ab")
        system.run_until_idle()

    letters = [
        record for record in TraceReader.open(tmp_path / "trace").records() if isinstance(record, DeadLetterRecord)
    ]
    assert [(letter.message, letter.reason) for letter in letters] == [
        (says("b"), "the mailbox is full: its capacity is 1")
    ]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None])
def test_a_mailbox_capacity_must_be_a_positive_integer(capacity: object) -> None:
    with pytest.raises(ValueError, match="whole number above 0, not"):
        BoundedMailbox(capacity)  # type: ignore[arg-type]
