"""Records are in the order in which their turns began, however late the turns ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.replay.session.causes import causes_of
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.order import exactly_in_order, nearly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Record, Turn
from tests.runtime.scripted_actors import Say, says, scripted_actor

WORDS = 3_000


class Sleeper(Actor):
    def __init__(self, hearer: Ref) -> None:
        self._hearer = hearer

    async def handle_message(self, message: Message) -> None:
        await self.context.sleep("1m")
        self._hearer.tell(message)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.trace"
    with SeededSystem(3, recorder=TraceRecorder(path), serialize_messages=False) as system:
        busy = system.spawn(scripted_actor([], {}), "busy")
        system.spawn(Props(Sleeper, busy), "sleeper").tell(says("long"))
        system.run_until_idle()
        for number in range(WORDS):
            busy.tell(says(str(number)))
        system.advance(120_000)
    return path


def test_a_turn_that_ends_thousands_of_turns_later_keeps_its_position(path: Path) -> None:
    trace = TraceReader.open(path)
    written = [record.sequence for record in trace.records()]
    long = next(turn for turn in trace if turn.message == Say(text="long") and turn.recipient.path == "/user/sleeper")

    ordered = list(exactly_in_order(trace))

    assert written.index(long.sequence) > WORDS
    assert [record.sequence for record in ordered] == sorted(written) == sorted(trace.sequences())
    assert sum(isinstance(record, Turn) for record in ordered) > WORDS


def test_a_turn_that_ended_late_is_replayed_at_its_recorded_position(path: Path) -> None:
    result = TraceReplayer(modules=["tests.runtime.scripted_actors"]).replay(path, raise_on_divergence=True)

    assert result.compared == result.turns > WORDS


def test_a_long_turn_is_the_cause_of_its_messages(path: Path) -> None:
    trace = TraceReader.open(path)
    heard = next(turn for turn in trace if turn.message == Say(text="long") and turn.recipient.path == "/user/busy")

    causes = causes_of(trace, heard)

    assert [cause.turn.recipient.path for cause in causes] == ["/user/sleeper"]


def test_large_messages_are_not_buffered_by_the_thousand(tmp_path: Path) -> None:
    path, read = tmp_path / "large.trace", []
    with SeededSystem(3, recorder=TraceRecorder(path), serialize_messages=False) as system:
        ref = system.spawn(scripted_actor([], {}), "a")
        for _ in range(12):
            ref.tell(says("x" * 4_000_000))

    def noting() -> Iterator[Record]:
        for record in TraceReader.open(path).records():
            read.append(record.sequence)
            yield record

    records = nearly_in_order(noting())
    first = next(records)
    read_for_first = len(read)
    found = [first, *records]

    assert read_for_first < 10
    assert [record.sequence for record in found] == sorted(read)
