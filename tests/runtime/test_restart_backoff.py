"""Restarts with a delay: its length, events during the delay, and the hooks of the old instance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import DurationError
from flykka.runtime.events import ActorTerminated, DeadLetter
from flykka.runtime.signals import BackoffEnded, Recreate
from flykka.runtime.supervision import AllForOne, OneForOne, SupervisorStrategy
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.time.backoff import Backoff
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Deed, fails, says, scripted_actor

PLAIN = Backoff(min_backoff=100, max_backoff=400, random_factor=0)


def family(system: SeededSystem, log: list[str], strategy: SupervisorStrategy, *names: str, **script: Deed) -> None:
    child = scripted_actor(log, {"fail": fails, **script})
    system.spawn(
        scripted_actor([], {"start": lambda context: [context.spawn(child, name) for name in names]}, strategy), "p"
    )
    system.run_until_idle()
    log.clear()


def tell_words(system: SeededSystem, name: str, *words: str) -> None:
    for word in words:
        system.actor_selection(f"/user/p/{name}").tell(says(word))
    system.run_until_idle()


def test_the_new_instance_is_created_after_the_delay(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, OneForOne(backoff=PLAIN), "c")

    tell_words(system, "c", "fail")
    system.advance(99)
    assert log == ["c fail", "c stop"]
    system.advance(1)

    assert log == ["c fail", "c stop", "c restart"]


def test_messages_sent_during_the_delay_wait_in_the_mailbox(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, OneForOne(backoff=PLAIN), "c")

    tell_words(system, "c", "fail", "one", "two")
    system.advance(100)

    assert log[-3:] == ["c restart", "c one", "c two"]


def test_each_delay_doubles_up_to_the_limit(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, OneForOne(backoff=PLAIN), "c")
    waits: list[int] = []

    for _ in range(4):
        begun = system.clock.now_ms()
        log.clear()
        tell_words(system, "c", "fail")
        while "c restart" not in log:
            system.advance(10)
        waits.append(system.clock.now_ms() - begun)

    assert waits == [100, 200, 400, 400]


def test_the_delays_are_reset_after_a_quiet_period(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, OneForOne(backoff=PLAIN), "c")
    tell_words(system, "c", "fail")
    system.advance(100 + 250)
    log.clear()

    tell_words(system, "c", "fail")
    system.advance(100)

    assert log[-1] == "c restart"


def test_the_quiet_period_that_resets_the_backoff_is_configurable(system: SeededSystem) -> None:
    log: list[str] = []
    patient = Backoff(min_backoff=100, max_backoff=400, random_factor=0, reset_after=10_000)
    family(system, log, OneForOne(backoff=patient), "c")
    tell_words(system, "c", "fail")
    system.advance(9_000)
    log.clear()

    tell_words(system, "c", "fail")
    system.advance(199)

    assert log == ["c fail", "c stop"]


def test_the_jitter_of_delays_is_reproducible_with_the_seed() -> None:
    backoff = Backoff(min_backoff=100, max_backoff=100_000, random_factor=0.5)

    def waits(seed: int) -> int:
        log: list[str] = []
        with SeededSystem(seed) as system:
            family(system, log, OneForOne(backoff=backoff), "c")
            tell_words(system, "c", "fail")
            while "c restart" not in log:
                system.advance(1)
            return system.clock.now_ms()

    assert waits(1) == waits(1)
    assert 100 <= waits(1) <= 150
    assert len({waits(seed) for seed in range(5)}) > 1


@pytest.mark.parametrize("end", ["stop", "kill", "terminate"])
def test_a_stop_or_kill_during_the_restart_delay_ends_the_actor(end: str) -> None:
    log: list[str] = []
    letters: list[DeadLetter] = []
    system = SeededSystem(3)
    system.event_stream.subscribe(letters.append, DeadLetter)
    family(system, log, OneForOne(backoff=PLAIN), "c")
    tell_words(system, "c", "fail", "too late")
    ref = system.find("/user/p/c")
    assert ref is not None

    match end:
        case "stop":
            ref.stop()
        case "kill":
            system.kill(ref)
        case _:
            system.terminate().wait(timeout=1)
    system.advance(1_000)

    assert log == ["c fail", "c stop"]
    assert [letter.message for letter in letters] == [says("too late")]
    system.terminate().wait(timeout=1)
    assert system.manual_clock.next_due() is None


def test_siblings_that_restart_together_wait_for_the_longest_delay(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, AllForOne(backoff=PLAIN), "a", "b")

    tell_words(system, "a", "fail")
    assert sorted(log) == ["a fail", "a stop", "b stop"]
    system.advance(100)

    assert sorted(log[-2:]) == ["a restart", "b restart"]


def test_the_limit_of_restarts_also_applies_to_delayed_restarts(system: SeededSystem) -> None:
    log: list[str] = []
    family(system, log, OneForOne(backoff=PLAIN, max_restarts=1), "c")

    for _ in range(2):
        tell_words(system, "c", "fail")
        system.advance(1_000)

    assert log == ["c fail", "c stop", "c restart", "c fail", "c stop"]
    assert system.find("/user/p/c") is None


def test_resources_of_the_old_instance_are_closed_at_once(system: SeededSystem) -> None:
    log: list[str] = []

    class Connection:
        def close(self) -> None:
            log.append("closed")

    def begin(context: ActorContext) -> None:
        context.own(Connection())
        context.timers.start_once("t", 50, says("tick"))

    family(system, log, OneForOne(backoff=PLAIN), "c", start=begin)

    tell_words(system, "c", "fail")
    assert log == ["c fail", "c stop", "closed"]
    system.advance(100)

    assert log == ["c fail", "c stop", "closed", "c restart"]


def test_the_trace_contains_the_delay(tmp_path: Path) -> None:
    log: list[str] = []
    with SeededSystem(3, recorder=TraceRecorder(tmp_path / "trace")) as system:
        family(system, log, OneForOne(backoff=PLAIN), "c")
        tell_words(system, "c", "fail")
        system.advance(100)

    turns = [turn for turn in TraceReader.open(tmp_path / "trace") if turn.recipient.path == "/user/p/c"]

    recreate = next(turn for turn in turns if turn.message == Recreate(delay_ms=100))
    ended = next(turn for turn in turns if turn.message == BackoffEnded())
    assert ended.cause == recreate.sequence
    assert ended.now_ms == recreate.now_ms + 100


def test_on_threads_every_actor_in_backoff_ends() -> None:
    ends: list[Ref] = []
    log: list[str] = []
    chance = random.Random(5)
    strategy = OneForOne(backoff=Backoff(min_backoff=1, max_backoff=4), max_restarts=3, within_ms=1_000)
    child = scripted_actor(log, {"fail": fails, "end": lambda context: context.stop()})
    script = {"start": lambda context: [context.spawn(child, f"c{number}") for number in range(4)], "fail": fails}
    family_of_many = scripted_actor(
        log, {"start": lambda c: [c.spawn(scripted_actor(log, script, strategy), n) for n in "xyz"]}, strategy
    )
    with ActorSystem("restless") as system:
        system.event_stream.subscribe(lambda event: ends.append(event.ref), ActorTerminated)
        system.spawn(family_of_many, "f")
        for _ in range(400):
            path = f"/user/f/{chance.choice('xyz')}" + chance.choice(["", "/c0", "/c1", "/c2", "/c3"])
            ref = system.find(path)
            if ref is not None:
                if chance.random() < 0.05:
                    system.kill(ref)
                else:
                    ref.tell(says(chance.choice(["fail", "more", "more", "end"])))
        assert system.terminate().wait(timeout=5)

    assert len(ends) == len(set(ends))
    assert system.cells.living() == []


def test_delays_do_not_overflow_after_very_many_restarts() -> None:
    backoff = Backoff(min_backoff=1, max_backoff="1h", random_factor=0.1)

    delays = [backoff.delay_ms(tries, random.Random(tries)) for tries in (0, 10, 100, 10**9)]

    assert delays[0] == 1
    assert 1024 <= delays[1] <= 1127
    assert all(3_600_000 <= delay <= 3_960_000 for delay in delays[2:])


def test_invalid_backoff_settings_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="max_backoff '1s' is shorter than min_backoff '2s'"):
        Backoff(min_backoff="2s", max_backoff="1s")
    with pytest.raises(ValueError, match="random_factor 2"):
        Backoff(random_factor=2)
    with pytest.raises(DurationError, match="min_backoff"):
        Backoff(min_backoff=0)
    with pytest.raises(DurationError, match="reset_after"):
        Backoff(reset_after="soon")
