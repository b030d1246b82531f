"""The flight recorder retains the last turns, drops earlier ones, and writes the retained ones to a file on request."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Send, Stop
from flykka.runtime.trace.file.message_encoding import weight
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.flight_recorder import FlightRecorder, FlightRecordState
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import DeadLetterRecord, Ring
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor

SOMEONE = Ref("/user/a", 1)


def open_recorder(turns: int = 100, payload_bytes: int = 1_000_000) -> FlightRecorder:
    recorder = FlightRecorder(turns, payload_bytes=payload_bytes)
    recorder.open(system="ring", seed=7)
    return recorder


def take_turns(recorder: FlightRecorder, words: list[str]) -> None:
    for number, word in enumerate(words, start=1):
        recorder.turn(number, number, SOMEONE, Envelope(says(word), None, None), [], None)


def words(path: Path) -> list[str]:
    return [turn.message.text for turn in TraceReader.open(path).turns if isinstance(turn.message, Say)]


def test_the_recorder_reports_the_size_and_time_range_of_a_dump(tmp_path: Path) -> None:
    recorder = open_recorder(turns=2_500)  # Each page holds three turns.
    empty = recorder.held()
    take_turns(recorder, ["word"] * 4_001)
    held = recorder.held()
    recorder.dump(tmp_path / "ring.trace")

    trace = TraceReader.open(tmp_path / "ring.trace")
    times = [record.now_ms for record in trace.records()]
    assert empty == FlightRecordState(records=0, limit=2_500, not_kept=0)
    assert trace.header.ring is not None
    assert held == FlightRecordState(
        records=len(times),
        limit=2_500,
        not_kept=trace.header.ring.not_kept,
        begins_ms=times[0],
        ends_ms=times[-1],
    )


def test_a_dump_equals_a_full_recording_of_the_same_run(tmp_path: Path) -> None:
    def run(recorder: FlightRecorder | TraceRecorder) -> None:
        with SeededSystem(5, recorder=recorder) as system:
            ref = system.spawn(scripted_actor([], {"question": replies, "fail": fails}), "a")
            ref.ask(says("question"))
            ref.tell(says("fail"))
            system.run_until_idle()
            doomed = system.spawn(scripted_actor([]), "b")
            system.kill(doomed)
            doomed.tell(says("too late"))
            if isinstance(recorder, FlightRecorder):
                recorder.dump(tmp_path / "ring.trace")

    run(FlightRecorder())
    run(TraceRecorder(tmp_path / "full.trace"))

    ring, full = (list(TraceReader.open(tmp_path / name).records()) for name in ("ring.trace", "full.trace"))
    assert ring == full[: len(ring)]
    assert isinstance(ring[-1], DeadLetterRecord)


def test_the_last_turns_are_kept_and_the_header_describes_the_dropped_ones(tmp_path: Path) -> None:
    recorder = open_recorder(turns=3)
    take_turns(recorder, ["a", "b", "c", "d", "e"])

    recorder.dump(tmp_path / "ring.trace")

    assert words(tmp_path / "ring.trace") == ["c", "d", "e"]
    assert TraceReader.open(tmp_path / "ring.trace").header.ring == Ring(limit=3, not_kept=2, begins_at=3)


def test_a_complete_recording_has_no_ring_in_its_header(tmp_path: Path) -> None:
    with SeededSystem(5, recorder=TraceRecorder(tmp_path / "run.trace")):
        pass

    assert TraceReader.open(tmp_path / "run.trace").header.ring is None


def test_large_messages_displace_older_turns(tmp_path: Path) -> None:
    recorder = open_recorder(payload_bytes=1_000)
    take_turns(recorder, ["x" * 300, "y" * 300, "z" * 300, "w" * 300])

    recorder.dump(tmp_path / "ring.trace")

    assert [word[0] for word in words(tmp_path / "ring.trace")] == ["y", "z", "w"]


def test_large_blocking_work_displaces_older_turns(tmp_path: Path) -> None:
    recorder = open_recorder(payload_bytes=1_000)
    work = BlockingWork(function="upload", arguments=(b"x" * 600,))
    for number in range(1, 6):
        recorder.turn(number, number, SOMEONE, Envelope(says("go"), None, None), [("pipe", work)], None)

    recorder.dump(tmp_path / "last.trace")

    assert [turn.sequence for turn in TraceReader.open(tmp_path / "last.trace").turns][-1] == 5
    assert len(TraceReader.open(tmp_path / "last.trace").turns) < 5


def test_the_newest_turn_is_kept_whatever_its_size(tmp_path: Path) -> None:
    recorder = open_recorder(payload_bytes=1_000)
    take_turns(recorder, ["a", "b", "x" * 5_000])

    recorder.dump(tmp_path / "ring.trace")

    assert words(tmp_path / "ring.trace") == ["x" * 5_000]


def test_a_messages_weight_is_the_size_of_its_texts_and_bytes() -> None:
    assert weight(says("four")) == 4
    assert weight((says("four"), b"abc", 5, None)) == 4 + 3 + 4 * 8
    assert weight(SOMEONE) == 0


def test_recording_continues_after_a_dump_and_the_next_dump_replaces_it(tmp_path: Path) -> None:
    recorder, path = open_recorder(), tmp_path / "not there yet" / "ring.trace"
    take_turns(recorder, ["a"])
    recorder.dump(path)
    take_turns(recorder, ["b"])

    recorder.dump(path)

    assert words(path) == ["a", "b"]
    assert [file.name for file in path.parent.iterdir()] == ["ring.trace"]


def test_a_failed_dump_keeps_the_earlier_file(tmp_path: Path) -> None:
    recorder, path = open_recorder(), tmp_path / "ring.trace"
    take_turns(recorder, ["a"])
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        recorder.dump(path)

    assert [file.name for file in tmp_path.iterdir()] == ["ring.trace"]


def test_actors_run_while_a_dump_is_written(tmp_path: Path) -> None:
    recorder = FlightRecorder(turns=200)
    with ActorSystem("threads", recorder=recorder) as system:
        refs = [system.spawn(scripted_actor([], {"sync": replies}), f"a{number}") for number in range(4)]
        dumps = [threading.Thread(target=recorder.dump, args=(tmp_path / f"{n}.trace",)) for n in range(3)]
        for dump in dumps:
            dump.start()
        for number in range(300):
            for ref in refs:
                ref.tell(says(str(number)))
        for ref in refs:
            ref.ask(says("sync"), timeout=5)
        for dump in dumps:
            dump.join()
        recorder.dump(tmp_path / "last.trace")

    assert all(TraceReader.open(tmp_path / f"{n}.trace").truncated is None for n in range(3))
    last = TraceReader.open(tmp_path / "last.trace")
    assert len(list(last.records())) == 200
    for ref in refs:
        heard = [turn.sequence for turn in last if turn.recipient == ref]
        assert heard == sorted(heard)


def test_a_recorder_belongs_to_one_system_and_is_cleared_with_it(tmp_path: Path) -> None:
    recorder = FlightRecorder()
    with pytest.raises(RuntimeError, match="no system yet"):
        recorder.dump(tmp_path / "ring.trace")

    with SeededSystem(5, name="one", recorder=recorder), pytest.raises(RuntimeError, match="'one' cannot record 'two'"):
        SeededSystem(5, name="two", recorder=recorder)

    with pytest.raises(RuntimeError, match="'one' has ended"):
        recorder.dump(tmp_path / "ring.trace")
    assert list(tmp_path.iterdir()) == []


def test_fields_are_weighed_only_if_their_type_may_be_large_or_unknown() -> None:
    class Word(Message):
        pass

    @message("weight.local")
    class Local(Message):
        number: int
        words: tuple[Word, ...]

    assert weight(Local(number=1, words=("four",))) == 4 + 8  # type: ignore[arg-type]


@message("weight.inner")
class Inner(Message):
    """test: a value that contains numbers."""

    number: int


@message("weight.outer")
class Outer(Message):
    """test: a value that may contain another value of its class."""

    inner: Inner
    text: str = ""
    outer: Outer | None = None


def test_numbers_weigh_nothing_and_nested_values_are_weighed_recursively() -> None:
    innermost = Outer(inner=Inner(number=1), text="four")

    assert weight(Inner(number=1)) == 0
    assert weight(Outer(inner=Inner(number=1), outer=Outer(inner=Inner(number=2), outer=innermost))) == 4


def test_a_turn_with_many_effects_is_kept_completely(tmp_path: Path) -> None:
    recorder = open_recorder()
    sent = [("send", SOMEONE, says(str(number))) for number in range(20)]
    recorder.turn(1, 1, SOMEONE, Envelope(says("all"), None, None), [("stop", SOMEONE), *sent], None)

    recorder.dump(tmp_path / "ring.trace")

    (turn,) = TraceReader.open(tmp_path / "ring.trace").turns
    assert turn.effects == (
        Stop(ref=SOMEONE),
        *(Send(target=SOMEONE, message=says(str(number))) for number in range(20)),
    )
