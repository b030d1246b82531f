"""An actor ends during a coroutine because it is stopped or killed or its system terminates; traces of these ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ActorDeadError
from flykka.runtime.events import ActorFailed, DeadLetter
from flykka.runtime.supervision import AllForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.coroutines import coroutines, sleeps
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor


def test_a_stop_cancels_the_coroutine_and_waits_for_its_cleanup(system: SeededSystem) -> None:
    log: list[str] = []

    async def clean_up(context: ActorContext) -> None:
        try:
            await context.sleep("1h")
        finally:
            await context.sleep("2s")
            log.append("clean")

    ref = system.spawn(coroutines(log, a=clean_up), "a")
    question = ref.ask(says("a"), block=False, timeout=60)
    system.advance(1_000)

    stopped = ref.stop(block=False)
    system.advance(1_999)
    assert ref.is_alive()
    system.advance(1)

    assert stopped.get(timeout=0) is True
    assert log == ["a begins", "clean", "a cancelled", "stop"]
    with pytest.raises(ActorDeadError, match="it was stopped while it handled the message"):
        question.get(timeout=0)


def test_a_cancelled_coroutine_is_not_a_failure(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    ref = system.spawn(coroutines([], a=sleeps), "a")
    ref.tell(says("a"))
    system.run_until_idle()

    ref.stop()

    assert failures == []


def test_a_message_dequeued_when_its_actor_stops_is_a_dead_letter(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    log: list[str] = []
    ref = system.spawn(coroutines(log), "a")
    system.run_until_idle()
    ref.tell(says("x"))
    system.schedule.step()

    ref.stop()

    assert log == ["stop"]
    assert [letter.message for letter in letters] == [says("x")]


def test_a_message_dequeued_at_a_restart_is_handled_by_the_new_instance() -> None:
    def run(seed: int) -> tuple[str, ...]:
        log: list[str] = []

        def start(context: ActorContext) -> None:
            context.spawn(coroutines(log), "a")
            context.spawn(scripted_actor([], {"fail": fails}), "b")

        with SeededSystem(seed) as system:
            system.spawn(scripted_actor([], {"start": start}, AllForOne()), "p")
            system.run_until_idle()
            system.actor_selection("/user/p/b").tell(says("fail"))
            system.actor_selection("/user/p/a").tell(says("x"))
            system.run_until_idle()
            return tuple(log)

    logs = {run(seed) for seed in range(40)}

    assert logs == {("stop", "restart", "x begins", "x ends"), ("x begins", "x ends", "stop", "restart")}


def test_an_actor_and_its_awaited_actor_may_stop_together() -> None:
    for seed in range(20):
        log: list[str] = []
        failures: list[ActorFailed] = []
        with SeededSystem(seed) as system:
            system.event_stream.subscribe(failures.append, ActorFailed)
            silent = TestProbe(system)
            script = {"a": lambda _, asked=silent.ref: asked.ask(says("question"), block=False)}
            system.spawn(coroutines(log, **script), "a").tell(says("a"))
            silent.expect_message(Say)

        assert log == ["a begins", "a cancelled", "stop"]
        assert failures == []


def test_an_actor_that_stops_itself_completes_its_coroutine_first(system: SeededSystem) -> None:
    log: list[str] = []

    async def stop(context: ActorContext) -> None:
        context.stop()
        await context.sleep("1s")

    ref = system.spawn(coroutines(log, a=stop), "a")
    ref.tell(says("a"))
    system.advance(1_000)

    assert log == ["a begins", "a ends", "stop"]
    assert not ref.is_alive()


def test_a_kill_is_immediate_and_later_messages_of_the_coroutine_are_dropped(either: ActorSystem) -> None:
    log: list[str] = []
    probe, over = TestProbe(either), threading.Event()

    async def never(context: ActorContext) -> None:
        probe.ref.tell(says("begun"))
        try:
            await asyncio.Event().wait()
        finally:
            probe.ref.tell(says("from beyond"))
            context.spawn(scripted_actor([]), "late")
            over.set()

    ref = either.spawn(coroutines(log, a=never), "a")
    question = ref.ask(says("a"), block=False, timeout=60)
    probe.expect_message(Say)

    either.kill(ref)
    assert not ref.is_alive()
    with pytest.raises(ActorDeadError, match="killed"):
        question.get(timeout=0)
    if isinstance(either, SeededSystem):
        either.run_until_idle()

    assert over.wait(5)
    assert probe.drain() == []
    assert either.find("/user/a/late") is None
    assert "stop" not in log


def test_a_message_dequeued_when_its_actor_is_killed_is_a_dead_letter(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    log: list[str] = []
    ref = system.spawn(coroutines(log), "a")
    system.run_until_idle()
    ref.tell(says("x"))
    system.schedule.step()

    system.kill(ref)
    system.run_until_idle()

    assert log == []
    assert [letter.message for letter in letters] == [says("x")]


def test_background_tasks_end_with_their_actor_and_send_without_a_sender(system: SeededSystem) -> None:
    log: list[str] = []
    probe = TestProbe(system)

    async def background(context: ActorContext) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                probe.ref.tell(says("tick"))
        finally:
            log.append("background ends")

    async def begin(context: ActorContext) -> None:
        tasks.append(asyncio.create_task(background(context)))

    tasks: list[asyncio.Task[None]] = []
    ref = system.spawn(coroutines(log, a=begin), "a")
    ref.tell(says("a"))
    probe.expect_message(Say)
    assert probe.last_sender is None

    ref.stop()
    system.run_until_idle()

    assert log == ["a begins", "a ends", "stop", "background ends"]
    assert system.manual_clock.next_due() is None


def test_watching_works_during_a_coroutine(system: SeededSystem) -> None:
    log: list[str] = []
    watched = system.spawn(coroutines([], a=sleeps), "watched")
    watched.tell(says("a"))

    async def watch(context: ActorContext) -> None:
        context.watch(watched)
        await context.sleep("2s")

    system.spawn(coroutines(log, a=watch), "watcher").tell(says("a"))
    system.advance(1_000)

    watched.stop()
    system.advance(1_000)

    assert log == ["a begins", "a ends", "sees the end of /user/watched"]


def test_termination_ends_running_coroutines() -> None:
    log: list[str] = []
    begun = threading.Event()

    async def wait(_context: ActorContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    with ActorSystem("ends") as system:
        system.spawn(coroutines(log, a=wait), "a").tell(says("a"))
        assert begun.wait(5)

    assert log == ["a begins", "a cancelled", "stop"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_every_ask_of_an_ending_coroutine_has_an_outcome(threaded: ActorSystem, end: str) -> None:
    async def answer(context: ActorContext) -> None:
        await asyncio.sleep(0)
        replies(context)

    outcomes: list[str] = []
    for number in range(40):
        ref = threaded.spawn(coroutines([], question=answer), f"a{number}")
        questions = [ref.ask(says("question"), block=False, timeout=20) for _ in range(number % 5 + 1)]
        ender = threading.Thread(target=lambda ref=ref: ref.stop(block=False) if end == "stop" else threaded.kill(ref))
        ender.start()
        for question in questions:
            try:
                outcomes.append(question.get(timeout=5).text)
            except ActorDeadError as dead:
                outcomes.append(str(dead))
        ender.join()

    assert len(outcomes) == 120
    assert all(outcome == "reply" or "stopped" in outcome or "killed" in outcome for outcome in outcomes)
