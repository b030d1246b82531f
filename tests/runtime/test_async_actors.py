"""Actors whose `handle_message` is a coroutine function, in virtual time and on the real event loop."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskFailedError
from flykka.runtime.props import Props
from flykka.runtime.supervision import ESCALATING_STRATEGY, AllForOne, Directive, OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.coroutines import Coroutines, coroutines, sleeps
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor

# Turns


def test_the_next_message_waits_until_the_coroutine_has_ended(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(coroutines(log, a=sleeps), "a")

    ref.tell(says("a"))
    ref.tell(says("b"))
    system.advance(4_999)
    assert log == ["a begins"]
    system.advance(1)

    assert log == ["a begins", "a ends", "b begins", "b ends"]


def test_other_actors_run_while_a_coroutine_waits(either: ActorSystem) -> None:
    log: list[str] = []
    slow = either.spawn(coroutines(log, forever=lambda _: asyncio.Event().wait()), "slow")
    slow.tell(says("forever"))

    async def answer(context: ActorContext) -> None:
        await asyncio.sleep(0.001)
        replies(context)

    quick = either.spawn(coroutines([], question=answer), "quick")
    plain = either.spawn(scripted_actor([], {"question": replies}), "plain")

    assert quick.ask(says("question"), timeout=5) == says("reply")
    assert plain.ask(says("question"), timeout=5) == says("reply")
    assert log == ["forever begins"]


def test_a_coroutine_actor_asks_another_and_awaits_the_reply(either: ActorSystem) -> None:
    backend = either.spawn(scripted_actor([], {"question": replies}), "backend")

    async def forward(context: ActorContext) -> None:
        assert context.sender is not None
        context.sender.tell(await backend.ask(says("question"), block=False, timeout=5))

    front = either.spawn(coroutines([], question=forward), "front")

    assert front.ask(says("question"), timeout=5) == says("reply")


def test_sender_and_time_are_correct_after_an_await(system: SeededSystem) -> None:
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
    asker = system.spawn(scripted_actor([], {"go": lambda _: ref.tell(says("look"))}), "asker")
    asker.tell(says("go"))

    assert [probe.expect_message(Say, 10).text, probe.expect_message(Say, 10).text] == ["x", "y"]
    assert seen == [True, 3_000]
    assert probe.last_sender == ref


def test_a_context_variable_is_private_to_its_actor(either: ActorSystem) -> None:
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
def test_an_exception_of_a_coroutine_is_supervised_and_sent_to_the_asker(
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
def test_an_exception_of_an_asyncio_task_fails_its_awaiter(either: ActorSystem, error: type[BaseException]) -> None:
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


def test_a_failed_child_is_supervised_while_its_parent_awaits(system: SeededSystem) -> None:
    log: list[str] = []
    child_log: list[str] = []
    script = {"go": lambda context: spawn_child_and_sleep(context, child_log)}
    system.spawn(coroutines(log, **script), "p").tell(says("go"))
    system.advance(1_000)

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.advance(1_000)
    assert child_log == ["c start", "c fail", "c stop", "c restart"]
    system.advance(10_000)

    assert log == ["go begins", "go ends"]


async def spawn_child_and_sleep(context: ActorContext, log: list[str]) -> None:
    context.spawn(scripted_actor(log, {"fail": fails}), "c")
    await context.sleep("5s")


def test_an_escalated_failure_restarts_the_parent_and_cancels_its_coroutine(system: SeededSystem) -> None:
    log: list[str] = []

    class Escalating(Coroutines):
        supervisor_strategy = ESCALATING_STRATEGY

    script = {"go": lambda context: spawn_child_and_sleep(context, [])}
    system.spawn(Props(Escalating, log, script), "p").tell(says("go"))
    system.advance(1_000)

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.actor_selection("/user/p").tell(says("next"))
    system.advance(1_000)

    assert log == ["go begins", "go cancelled", "stop", "restart", "next begins", "next ends"]


def test_an_escalated_failure_that_is_resumed_does_not_cancel_the_coroutine(system: SeededSystem) -> None:
    log: list[str] = []

    class Escalating(Coroutines):
        supervisor_strategy = ESCALATING_STRATEGY

    script = {"go": lambda context: spawn_child_and_sleep(context, [])}
    resuming = OneForOne(decider=lambda _: Directive.RESUME)
    spawn = {"start": lambda context: context.spawn(Props(Escalating, log, script), "p").tell(says("go"))}
    system.spawn(scripted_actor([], spawn, resuming), "g")
    system.advance(1_000)

    system.actor_selection("/user/g/p/c").tell(says("fail"))
    system.actor_selection("/user/g/p").tell(says("next"))
    system.advance(1_000)
    assert log == ["go begins"]
    system.advance(4_000)

    assert log == ["go begins", "go ends", "next begins", "next ends"]


def test_a_failing_sibling_restarts_an_actor_during_its_coroutine(system: SeededSystem) -> None:
    log: list[str] = []

    def spawn(context: ActorContext) -> None:
        context.spawn(coroutines(log, a=sleeps), "a").tell(says("a"))
        context.spawn(scripted_actor([], {"fail": fails}), "b")

    system.spawn(scripted_actor([], {"start": spawn}, AllForOne()), "p")
    system.advance(1_000)

    system.actor_selection("/user/p/b").tell(says("fail"))
    system.run_until_idle()

    assert log == ["a begins", "a cancelled", "stop", "restart"]
