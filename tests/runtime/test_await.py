"""Futures of the kernel under asyncio: no loop is blocked, and a cancelled waiter does not affect the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import FutureCancelledError
from flykka.runtime.events import DeadLetter
from flykka.runtime.futures.future import Future
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, in_turn, replies, says, scripted_actor


async def test_a_cancelled_task_abandons_its_ask_without_affecting_the_actor(threaded: ActorSystem) -> None:
    askers: list[Ref] = []
    letters: list[DeadLetter] = []
    threaded.event_stream.subscribe(letters.append, DeadLetter)

    def remember(context: ActorContext) -> None:
        assert context.sender is not None
        askers.append(context.sender)

    script = {"question": remember, "now": in_turn(lambda _: askers[0].tell(says("late")), replies)}
    ref = threaded.spawn(scripted_actor([], script), "a")
    reply = ref.ask(says("question"), block=False)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reply

    with pytest.raises(FutureCancelledError):
        reply.get(timeout=0)
    assert await ref.ask(says("now"), block=False) == says("reply")
    assert [letter.message for letter in letters] == [says("late")]


async def test_a_cancelled_waiter_does_not_affect_other_waiters_of_the_future() -> None:
    future: Future[int] = Future()
    staying = asyncio.create_task(_result(future))
    leaving = asyncio.create_task(_result(future))
    await asyncio.sleep(0)

    leaving.cancel()
    await asyncio.sleep(0)
    future.set(4)

    assert await staying == 4
    assert leaving.cancelled()


async def test_an_abandoned_wait_leaves_no_callback() -> None:
    future: Future[int] = Future()
    keeper = asyncio.create_task(_result(future))
    await asyncio.sleep(0)
    waiting = len(future._callbacks or ())

    for _ in range(3):
        task = asyncio.create_task(_result(future))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)

    assert len(future._callbacks or ()) == waiting
    future.set(1)
    assert await keeper == 1


def test_tasks_of_several_loops_await_one_future() -> None:
    future: Future[int] = Future()
    got: list[int] = []
    waiting = threading.Barrier(3)

    async def wait() -> None:
        task = asyncio.ensure_future(_result(future))
        await asyncio.sleep(0)
        waiting.wait(5)
        got.append(await task)

    threads = [threading.Thread(target=asyncio.run, args=(wait(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.wait(5)
    future.set(7)
    for thread in threads:
        thread.join(5)

    assert got == [7, 7]


def test_a_result_after_the_event_loop_has_closed_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_result(future))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    future.set(1)

    assert caplog.text == ""
    task.get_coro().close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


async def test_the_wait_for_termination_can_be_cancelled() -> None:
    system = ActorSystem("ends")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await system.terminated
    assert not system.terminated.done()

    await system.terminate()

    assert system.terminated.done()


# Coroutine tests that drive a seeded system


async def test_awaiting_drives_a_seeded_system(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([], {"question": replies}), "a")

    answers = await asyncio.gather(*(ref.ask(says("question"), block=False) for _ in range(3)))

    assert answers == [says("reply")] * 3


async def test_other_asyncio_tasks_run_before_virtual_time_advances(system: SeededSystem) -> None:
    probe = TestProbe(system)
    question = probe.ref.ask(says("question"), block=False, timeout=1)
    probe.expect_message(Say)
    asker = probe.last_sender

    async def answer() -> None:
        assert asker is not None
        asker.tell(says("in time"))

    reply, _ = await asyncio.gather(question, answer())

    assert reply == says("in time")
    assert system.manual_clock.now_ms() == 0


async def test_an_asyncio_task_sleeps_until_another_task_sends_a_message() -> None:
    system = SeededSystem(1)
    end = asyncio.create_task(_result(system.terminated))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not end.done()

    system.terminate()
    await asyncio.wait_for(end, 5)

    assert system.terminated.done()


async def test_an_asyncio_task_sleeps_until_another_task_sets_the_result(system: SeededSystem) -> None:
    future: Future[int] = Future(system.driver)
    waiting = asyncio.create_task(_result(future))
    for _ in range(10):
        await asyncio.sleep(0)

    future.set(3)

    assert await asyncio.wait_for(waiting, 5) == 3


def _result(future: Future[Any]) -> Coroutine[Any, Any, Any]:
    async def wait() -> Any:
        return await future

    return wait()
