"""The reader returns everything that the recorder wrote before a crash or a flipped bit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flykka.messages.wire.ids import LeaderSessionId
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway
from flykka.runtime.signals import Create
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import (
    CancelTimer,
    CutShort,
    Kill,
    Pipe,
    Reply,
    Send,
    Spawn,
    StartTimer,
    Stop,
    Undecoded,
    Unwatch,
    Watch,
)
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.block_writer import BlockWriter
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import DeadLetterRecord, Turn
from tests.runtime.scripted_actors import Say, fails, in_turn, replies, says, scripted_actor


def recorded_system(path: Path) -> SeededSystem:
    return SeededSystem(5, name="recorded", recorder=TraceRecorder(path))


def turns_of(trace: TraceReader, path: str) -> list[Turn]:
    return [turn for turn in trace.turns if turn.recipient.path == path]


def test_the_header_describes_the_recording(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace"):
        pass

    header = TraceReader.open(tmp_path / "run.trace").header

    assert (header.format_version, header.system, header.seed) == (4, "recorded", 5)


def test_a_turn_has_its_message_its_effects_and_its_cause(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        other = system.spawn(scripted_actor([]), "b")
        script = {
            "go": in_turn(
                lambda _: other.tell(says("hello")),
                lambda c: c.spawn(scripted_actor([]), "c"),
                lambda c: c.watch(other),
                lambda c: c.unwatch(other),
                lambda c: c.timers.start_once("k", 50, says("tick")),
                lambda c: c.timers.cancel("k"),
                lambda c: c.pipe_to_self(lambda: 1, lambda _: says("piped"), lambda _: says("piped")),
                lambda c: c.stop(),
            )
        }
        ref = system.spawn(scripted_actor([], script), "a")
        system.advance(20)
        ref.tell(says("go"))
        system.run_until_idle()

    trace = TraceReader.open(tmp_path / "run.trace")
    create, go = turns_of(trace, "/user/a")[:2]
    assert (create.kind, create.message) == ("signal", Create())
    assert (go.kind, go.message, go.now_ms, go.sender, go.cause) == ("message", says("go"), 20, None, None)
    assert [type(effect) for effect in go.effects] == [Send, Spawn, Watch, Unwatch, StartTimer, CancelTimer, Pipe, Stop]
    assert go.effects[0] == Send(target=other, message=says("hello"))
    assert go.effects[4] == StartTimer(key="k", first_ms=50, message=says("tick"), delay_ms=None)
    hello = next(turn for turn in turns_of(trace, "/user/b") if turn.message == says("hello"))
    assert (hello.sender, hello.cause) == (ref, go.sequence)
    assert trace.truncated is None


def test_replies_and_failures_are_recorded(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        ref = system.spawn(scripted_actor([], {"question": replies, "fail": fails}), "a")
        ref.ask(says("question"))
        ref.tell(says("fail"))
        system.run_until_idle()

    _, question, fail, *_ = turns_of(TraceReader.open(tmp_path / "run.trace"), "/user/a")
    assert [type(effect) for effect in question.effects] == [Reply]
    assert fail.failure is not None
    assert fail.failure.message == "as scripted"


def test_timer_messages_are_recorded_as_a_turn_kind_of_their_own(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        system.spawn(scripted_actor([], {"start": lambda c: c.timers.start_once("k", 50, says("tick"))}), "a")
        system.advance(100)

    create, tick, *_ = turns_of(TraceReader.open(tmp_path / "run.trace"), "/user/a")
    assert (tick.kind, tick.message, tick.now_ms, tick.cause) == ("timer", says("tick"), 50, create.sequence)


def test_a_kill_is_recorded_and_no_turn_follows_it(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        child = scripted_actor([])
        ref = system.spawn(scripted_actor([], {"start": lambda c: c.spawn(child, "c")}), "a")
        system.run_until_idle()
        ref.tell(says("never handled"))
        system.kill(ref)
        system.run_until_idle()

    trace = TraceReader.open(tmp_path / "run.trace")
    assert [kill.ref.path for kill in trace.killed] == ["/user/a", "/user/a/c"]
    for kill in trace.killed:
        assert all(turn.sequence < kill.sequence for turn in trace if turn.recipient == kill.ref)


def test_a_turn_ended_by_a_kill_is_recorded_with_its_earlier_effects(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        other = system.spawn(scripted_actor([]), "b")
        script = {
            "die": in_turn(
                lambda _: other.tell(says("before")),
                lambda c: c.system.kill(c.ref),
                lambda _: other.tell(says("behind")),
                lambda c: c.stop(other),
            )
        }
        system.spawn(scripted_actor([], script), "a").tell(says("die"))
        system.run_until_idle()

    trace = TraceReader.open(tmp_path / "run.trace")
    die = turns_of(trace, "/user/a")[-1]
    assert die.effects == (Send(target=other, message=says("before")), Kill(ref=die.recipient), CutShort())
    assert die.sequence < trace.killed[0].sequence


def test_a_full_disk_ends_only_the_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.trace"
    recorder = TraceRecorder(path)
    with ActorSystem("full", recorder=recorder) as system:
        ref = system.spawn(scripted_actor([], {"sync": replies}), "a")
        ref.ask(says("sync"), timeout=5)
        assert isinstance(recorder._blocks, BlockWriter)
        assert recorder._blocks._file is not None
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, recorder._blocks._file.fileno())
        os.close(full)
        for _ in range(1000):
            ref.tell(says("more"))
        assert ref.ask(says("sync"), timeout=5) == says("reply")

    assert "the recording of" in caplog.text
    assert "No space left" in caplog.text
    truncated = TraceReader.open(path).truncated
    assert truncated is not None
    assert "was not closed" in truncated.reason


def test_messages_of_stale_sessions_are_recorded(tmp_path: Path) -> None:
    with recorded_system(tmp_path / "run.trace") as system:
        ref = system.spawn(scripted_actor([]), "a")
        Gateway(ref, LeaderSessionId("old")).tell(says("x"))
        system.run_until_idle()

    records = TraceReader.open(tmp_path / "run.trace").records()
    letters = [record for record in records if isinstance(record, DeadLetterRecord)]
    assert [letter.reason for letter in letters] == ["stale leader session old (accepted: none)"]


def test_equal_seeds_record_equal_traces(tmp_path: Path) -> None:
    def passes_on(context: ActorContext) -> None:
        neighbour = context.random.choice("abcde")
        context.system.actor_selection(f"/user/{neighbour}").tell(says(context.new_id("word")))

    for run in ("one", "two"):
        with recorded_system(tmp_path / run) as system:
            for name in "abcde":
                system.spawn(scripted_actor([], {"go": passes_on}), name).tell(says("go"))

    one, two = (list(TraceReader.open(tmp_path / run).records()) for run in ("one", "two"))
    assert one == two


def test_a_message_that_cannot_be_encoded_does_not_lose_its_turn(tmp_path: Path) -> None:
    with ActorSystem("loose", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        ref = system.spawn(scripted_actor([], {"sync": replies}), "a")
        ref.tell(Say(text=1))  # type: ignore[arg-type]
        ref.ask(says("sync"), timeout=5)

    _create, odd, *_ = turns_of(TraceReader.open(tmp_path / "run.trace"), "/user/a")
    assert isinstance(odd.message, Undecoded)
    assert "Say(text=1)" in odd.message.reason


def test_an_unencodable_value_does_not_lose_the_turn(tmp_path: Path) -> None:
    key = frozenset({"periodic"})
    with recorded_system(tmp_path / "run.trace") as system:
        system.spawn(scripted_actor([], {"start": lambda c: c.timers.start_once(key, 50, says("tick"))}), "a")
        system.advance(100)

    create, tick, *_ = turns_of(TraceReader.open(tmp_path / "run.trace"), "/user/a")
    assert create.effects == (StartTimer(key=repr(key), first_ms=50, message=says("tick"), delay_ms=None),)
    assert tick.message == says("tick")


def test_turns_of_each_actor_are_recorded_in_order_on_threads(tmp_path: Path) -> None:
    with ActorSystem("threads", recorder=TraceRecorder(tmp_path / "run.trace")) as system:
        refs = [system.spawn(scripted_actor([], {"sync": replies}), f"a{number}") for number in range(4)]
        for number in range(100):
            for ref in refs:
                ref.tell(says(str(number)))
        for ref in refs:
            ref.ask(says("sync"), timeout=5)

    trace = TraceReader.open(tmp_path / "run.trace")
    for ref in refs:
        words = [turn.message.text for turn in trace if turn.recipient == ref and isinstance(turn.message, Say)]
        assert words == [*map(str, range(100)), "sync"]
    sequences = [turn.sequence for turn in trace.turns]
    assert len(set(sequences)) == len(sequences)
