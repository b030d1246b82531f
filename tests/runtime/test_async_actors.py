"""Actors whose `handle_message` is a coroutine function, in virtual time and on the real event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar

import pytest

from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ActorDeadError, AskFailedError
from flykka.runtime.events import ActorFailed, DeadLetter
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import ESCALATING_STRATEGY, AllForOne, Directive, OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.players import Say, fails, player, replies, says

AsyncDeed = Callable[[ActorContext], Awaitable[object]]


class Coroutines(Actor):
    """Logs each word before and behind what its part awaits for it."""

    def __init__(self, log: list[str], part: dict[str, AsyncDeed]) -> None:
        self.log = log
        self.part = part

    async def handle_message(self, message: Message) -> None:
        match message:
            case Say(text=text):
                self.log.append(f"{text} begins")
                try:
                    deed = self.part.get(text)
                    if deed is not None:
                        await deed(self.context)
                except asyncio.CancelledError:
                    self.log.append(f"{text} cancelled")
                    raise
                self.log.append(f"{text} ends")
            case Terminated(ref=ref):
                self.log.append(f"sees the end of {ref.path}")

    def post_stop(self) -> None:
        self.log.append("stop")

    def post_restart(self, cause: BaseException | None) -> None:
        self.log.append("restart")


def coroutines(log: list[str], **part: AsyncDeed) -> Props:
    return Props(Coroutines, log, part)


async def sleeps(context: ActorContext) -> None:
    await context.sleep("5s")


async def raises(_context: ActorContext) -> None:
    await asyncio.sleep(0)
    raise RuntimeError("as the part says")


async def answers(context: ActorContext) -> None:
    await context.sleep("1s")
    replies(context)


@pytest.fixture(params=["virtual", "real"])
def either(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    with SeededSystem(5) if request.param == "virtual" else ActorSystem("loop", serialize_messages=True) as system:
        yield system


# One message at a time


def test_the_next_message_waits_until_the_coroutine_has_ended(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(coroutines(log, a=sleeps), "a")

    ref.tell(says("a"))
    ref.tell(says("b"))
    system.advance(4_999)
    assert log == ["a begins"]
    system.advance(1)

    assert log == ["a begins", "a ends", "b begins", "b ends"]


def test_other_actors_go_on_while_a_coroutine_waits(either: ActorSystem) -> None:
    log: list[str] = []
    slow = either.spawn(coroutines(log, forever=lambda _: asyncio.Event().wait()), "slow")
    slow.tell(says("forever"))

    async def answer(context: ActorContext) -> None:
        await asyncio.sleep(0.001)
        replies(context)

    quick = either.spawn(coroutines([], question=answer), "quick")
    plain = either.spawn(player([], {"question": replies}), "plain")

    assert quick.ask(says("question"), timeout=5) == says("reply")
    assert plain.ask(says("question"), timeout=5) == says("reply")
    assert log == ["forever begins"]


def test_a_coroutine_actor_asks_another_and_awaits_the_reply(either: ActorSystem) -> None:
    backend = either.spawn(player([], {"question": replies}), "backend")

    async def forward(context: ActorContext) -> None:
        assert context.sender is not None
        context.sender.tell(await backend.ask(says("question"), block=False, timeout=5))

    front = either.spawn(coroutines([], question=forward), "front")

    assert front.ask(says("question"), timeout=5) == says("reply")


def test_sender_time_and_speaker_are_right_behind_an_await(system: SeededSystem) -> None:
    probe = TestProbe(system)
    seen: list[object] = []

    async def look(context: ActorContext) -> None:
        before = context.sender, context.now()
        await context.sleep("3s")
        seen.extend((context.sender == before[0], context.now() - before[1]))
        await asyncio.gather(*(tell(context, word) for word in "xy"))

    async def tell(context: ActorContext, word: str) -> None:
        await asyncio.sleep(0.5)
        probe.ref.tell(says(word))

    ref = system.spawn(coroutines([], look=look), "a")
    asker = system.spawn(player([], {"go": lambda _: ref.tell(says("look"))}), "asker")
    asker.tell(says("go"))

    assert [probe.expect_message(Say, 10).text, probe.expect_message(Say, 10).text] == ["x", "y"]
    assert seen == [True, 3_000]
    assert probe.last_sender == ref


def test_a_context_variable_is_the_actors_own(either: ActorSystem) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    variable.set("the teller's")
    seen: list[str] = []

    async def look(context: ActorContext) -> None:
        seen.append(variable.get())
        variable.set("the actor's")
        await asyncio.sleep(0)
        seen.append(variable.get())
        replies(context)

    ref = either.spawn(coroutines([], look=look), "a")
    ref.ask(says("look"), timeout=5)
    ref.ask(says("look"), timeout=5)

    assert seen == ["none", "the actor's", "the actor's", "the actor's"]
    assert variable.get() == "the teller's"


# Failures


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_a_coroutine_raises_is_supervised_and_told_to_the_asker(
    either: ActorSystem, error: type[BaseException]
) -> None:
    log: list[str] = []

    async def fail(_context: ActorContext) -> None:
        await asyncio.sleep(0)
        raise error("no")

    async def question(context: ActorContext) -> None:
        replies(context)

    ref = either.spawn(coroutines(log, fail=fail, question=question), "a")

    with pytest.raises(AskFailedError, match=error.__name__):
        ref.ask(says("fail"), timeout=5)

    assert ref.ask(says("question"), timeout=5) == says("reply")
    assert "restart" in log


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_a_task_of_the_coroutine_raises_fails_who_awaits_it(
    either: ActorSystem, error: type[BaseException]
) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error("no")

    ref = either.spawn(coroutines([], fail=lambda _: asyncio.ensure_future(fail())), "a")
    other = either.spawn(coroutines([], question=answers_now), "b")

    with pytest.raises(AskFailedError, match=error.__name__):
        ref.ask(says("fail"), timeout=5)

    assert other.ask(says("question"), timeout=5) == says("reply")


async def answers_now(context: ActorContext) -> None:
    replies(context)


def test_a_child_that_fails_is_judged_while_its_parent_awaits(system: SeededSystem) -> None:
    log: list[str] = []
    child_log: list[str] = []
    part = {"go": lambda context: spawn_child_and_sleep(context, child_log)}
    system.spawn(coroutines(log, **part), "p").tell(says("go"))
    system.advance(1_000)

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.advance(1_000)
    assert child_log == ["c start", "c fail", "c stop", "c restart"]
    system.advance(10_000)

    assert log == ["go begins", "go ends"]


async def spawn_child_and_sleep(context: ActorContext, log: list[str]) -> None:
    context.spawn(player(log, {"fail": fails}), "c")
    await context.sleep("5s")


def test_an_escalated_failure_restarts_the_parent_behind_its_cancelled_coroutine(system: SeededSystem) -> None:
    log: list[str] = []

    class Escalating(Coroutines):
        supervisor_strategy = ESCALATING_STRATEGY

    part = {"go": lambda context: spawn_child_and_sleep(context, [])}
    system.spawn(Props(Escalating, log, part), "p").tell(says("go"))
    system.advance(1_000)

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.actor_selection("/user/p").tell(says("next"))
    system.advance(1_000)

    assert log == ["go begins", "go cancelled", "stop", "restart", "next begins", "next ends"]


def test_an_escalated_failure_that_is_resumed_leaves_the_coroutine_alone(system: SeededSystem) -> None:
    log: list[str] = []

    class Escalating(Coroutines):
        supervisor_strategy = ESCALATING_STRATEGY

    part = {"go": lambda context: spawn_child_and_sleep(context, [])}
    resuming = OneForOne(decider=lambda _: Directive.RESUME)
    spawn = {"start": lambda context: context.spawn(Props(Escalating, log, part), "p").tell(says("go"))}
    system.spawn(player([], spawn, resuming), "g")
    system.advance(1_000)

    system.actor_selection("/user/g/p/c").tell(says("fail"))
    system.actor_selection("/user/g/p").tell(says("next"))
    system.advance(1_000)
    assert log == ["go begins"]
    system.advance(4_000)

    assert log == ["go begins", "go ends", "next begins", "next ends"]


def test_a_sibling_that_fails_restarts_an_actor_in_its_coroutine(system: SeededSystem) -> None:
    log: list[str] = []

    def spawn(context: ActorContext) -> None:
        context.spawn(coroutines(log, a=sleeps), "a").tell(says("a"))
        context.spawn(player([], {"fail": fails}), "b")

    system.spawn(player([], {"start": spawn}, AllForOne()), "p")
    system.advance(1_000)

    system.actor_selection("/user/p/b").tell(says("fail"))
    system.run_until_idle()

    assert log == ["a begins", "a cancelled", "stop", "restart"]


# The end


def test_a_stop_cancels_the_coroutine_and_comes_behind_its_cleanup(system: SeededSystem) -> None:
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


def test_a_cancelled_coroutine_is_no_failure(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    ref = system.spawn(coroutines([], a=sleeps), "a")
    ref.tell(says("a"))
    system.run_until_idle()

    ref.stop()

    assert failures == []


def test_an_actor_that_stops_itself_ends_its_coroutine_first(system: SeededSystem) -> None:
    log: list[str] = []

    async def stop(context: ActorContext) -> None:
        context.stop()
        await context.sleep("1s")

    ref = system.spawn(coroutines(log, a=stop), "a")
    ref.tell(says("a"))
    system.advance(1_000)

    assert log == ["a begins", "a ends", "stop"]
    assert not ref.is_alive()


def test_a_kill_is_at_once_and_what_the_coroutine_still_says_is_not_heard(either: ActorSystem) -> None:
    log: list[str] = []
    probe, over = TestProbe(either), threading.Event()

    async def never(context: ActorContext) -> None:
        probe.ref.tell(says("begun"))
        try:
            await asyncio.Event().wait()
        finally:
            probe.ref.tell(says("from beyond"))
            context.spawn(player([]), "late")
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


def test_a_message_that_was_taken_when_the_kill_came_is_a_dead_letter(system: SeededSystem) -> None:
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


def test_tasks_left_behind_end_with_the_actor_and_speak_for_no_one(system: SeededSystem) -> None:
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


def test_an_end_is_watched_and_a_watch_goes_on_during_a_coroutine(system: SeededSystem) -> None:
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


def test_the_system_ends_with_coroutines_in_hand() -> None:
    log: list[str] = []
    begun = threading.Event()

    async def wait(_context: ActorContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    with ActorSystem("ends") as system:
        system.spawn(coroutines(log, a=wait), "a").tell(says("a"))
        assert begun.wait(5)

    assert log == ["a begins", "a cancelled", "stop"]
