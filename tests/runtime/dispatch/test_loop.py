"""Awaitables that an actor's coroutine may use and those that are refused, on the event loop and in virtual time."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import (
    AskCycleError,
    AskFailedError,
    BlockingInLoopError,
    ForeignAwaitError,
    WaitInTurnError,
)
from flykka.runtime.events import ActorFailed
from flykka.runtime.futures.future import Future
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import ReceiveTimeout
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Say, replies, says, scripted_actor


class Doer(Actor):
    """Awaits one scripted coroutine for each message, then replies to the asker."""

    def __init__(self, deed: Callable[[ActorContext], Awaitable[object]]) -> None:
        self.deed = deed

    async def handle_message(self, message: Message) -> None:
        await self.deed(self.context)
        if self.context.sender is not None:
            self.context.sender.tell(says("done"))


def does(deed: Callable[[ActorContext], Awaitable[object]]) -> Props:
    return Props(Doer, deed)


# asyncio in virtual time


def test_asyncio_time_functions_use_virtual_time(system: SeededSystem) -> None:
    log: list[tuple[int, str]] = []

    def note(context: ActorContext, what: str) -> None:
        log.append((context.now(), what))

    async def deed(context: ActorContext) -> None:
        await asyncio.sleep(60)
        note(context, "slept")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        note(context, "timed out")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(60), 10)
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3))
        note(context, "gathered")
        await asyncio.sleep(0.0001)
        note(context, "rounded up")

    ref = system.spawn(does(deed), "a")

    assert ref.ask(says("go"), timeout=1_000) == says("done")
    assert log == [(60_000, "slept"), (90_000, "timed out"), (105_000, "gathered"), (105_001, "rounded up")]
    assert system.manual_clock.next_due() is None


def test_asyncio_functions_on_tasks_work(either: ActorSystem) -> None:
    got: list[int] = []

    async def deed(_context: ActorContext) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock = asyncio.Lock()

        async def produce() -> None:
            for number in range(3):
                async with lock:
                    await queue.put(number)

        producing = asyncio.create_task(produce())
        got.extend([await queue.get() for _ in range(3)])
        await producing
        got.append(await asyncio.to_thread(lambda: 3))
        with pytest.raises(ZeroDivisionError):
            await asyncio.get_running_loop().run_in_executor(None, lambda: 1 // 0)

    assert either.spawn(does(deed), "a").ask(says("go"), timeout=5) == says("done")
    assert got == [0, 1, 2, 3]


def test_the_seed_decides_the_order() -> None:
    def run(seed: int) -> list[str]:
        log: list[str] = []

        async def deed(context: ActorContext) -> None:
            for _ in range(4):
                log.append(context.path)
                await asyncio.sleep(0)

        with SeededSystem(seed) as system:
            refs = [system.spawn(does(deed), name) for name in "abcd"]
            for ref in refs:
                ref.tell(says("go"))
            system.run_until_idle()
        return log

    assert run(1) == run(1)
    assert len({tuple(run(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    ("reach", "named"),
    [
        (lambda: asyncio.open_connection("localhost", 80), "create_connection"),
        (lambda: asyncio.create_subprocess_exec("true", stdout=subprocess.PIPE), "subprocess_exec"),
        (lambda: asyncio.get_running_loop().getaddrinfo("localhost", 80), "getaddrinfo"),
    ],
)
async def test_external_resources_are_refused_in_virtual_time(
    system: SeededSystem, reach: Callable[[], Awaitable[object]], named: str
) -> None:
    ref = system.spawn(does(lambda _: reach()), "a")

    with pytest.raises(AskFailedError, match=rf"{ForeignAwaitError.__name__}: loop\.{named}\(\) uses") as failed:
        await ref.ask(says("go"), block=False)

    assert "virtual time cannot wait" in failed.value.failure.message


async def test_a_future_of_a_foreign_event_loop_is_refused_in_virtual_time(system: SeededSystem) -> None:
    foreign = asyncio.get_running_loop().create_future()

    async def deed(_context: ActorContext) -> None:
        await foreign

    with pytest.raises(AskFailedError, match="attached to a different loop"):
        await system.spawn(does(deed), "a").ask(says("go"), block=False)


# Calls that would block the loop


def test_blocking_is_refused_before_anything_is_sent(either: ActorSystem) -> None:
    log: list[str] = []
    other = either.spawn(scripted_actor(log, {"question": replies}), "other")
    refused: list[str] = []

    async def deed(_context: ActorContext) -> None:
        for block in (lambda: other.ask(says("question")), other.stop, Future[int]().get):
            with pytest.raises(BlockingInLoopError, match="must not block the event loop") as error:
                block()
            refused.append(str(error.value))

    assert either.spawn(does(deed), "a").ask(says("go"), timeout=5) == says("done")
    assert len(refused) == 3
    assert other.ask(says("question"), timeout=5) == says("reply")
    assert log == ["other start", "other question"]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_await_cycle_is_refused_with_the_names_of_its_actors(either: ActorSystem, length: int) -> None:
    refs: list[ActorRef] = []

    def awaits(number: int) -> Callable[[ActorContext], Awaitable[object]]:
        return lambda _: refs[(number + 1) % length].ask(says("go"), block=False, timeout=5)

    failures: list[ActorFailed] = []
    either.event_stream.subscribe(failures.append, ActorFailed)
    refs.extend(either.spawn(does(awaits(number)), f"a{number}") for number in range(length))

    with pytest.raises(AskFailedError):
        refs[0].ask(says("go"), timeout=5)

    assert failures[0].failure.type_name == AskCycleError.__name__
    chain = failures[0].failure.message.split(" -> ")
    assert chain[0] == chain[-1]
    assert len(chain) == length + 1


def test_a_concurrent_task_may_ask_an_actor_that_asks_back(either: ActorSystem) -> None:
    async def ask_beside(context: ActorContext) -> None:
        beside.append(asyncio.ensure_future(_reply(other, context)))
        await asyncio.sleep(0)

    beside: list[asyncio.Future[object]] = []
    other = either.spawn(does(lambda _: asking.ask(says("go"), block=False, timeout=5)), "other")
    asking = either.spawn(does(ask_beside), "asking")

    assert asking.ask(says("go"), timeout=5) == says("done")


async def _reply(ref: ActorRef, _context: ActorContext) -> object:
    return await ref.ask(says("go"), block=False, timeout=5)


def test_an_actor_cannot_await_its_own_end(either: ActorSystem) -> None:
    with pytest.raises(AskFailedError, match=WaitInTurnError.__name__):
        either.spawn(does(lambda context: context.ref.stop(block=False)), "a").ask(says("go"), timeout=5)


# Interaction with the rest of the kernel


def test_a_turn_is_recorded_completely_when_its_coroutine_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "trace"

    with SeededSystem(1, recorder=TraceRecorder(path)) as system:
        witness = system.spawn(scripted_actor([]), "witness")

        async def deed(context: ActorContext) -> None:
            witness.tell(says("before"))
            await context.sleep("1s")
            await asyncio.gather(_tells(witness, "beside"))
            witness.tell(says("behind"))

        ref = system.spawn(does(deed), "a")
        ref.tell(says("go"))
        system.advance(500)
        witness.tell(says("meanwhile"))
        system.advance(500)

    turns = [turn for turn in TraceReader.open(path) if isinstance(turn.message, Say)]
    mine, meanwhile = (next(t for t in turns if t.message == says(text)) for text in ("go", "meanwhile"))
    assert [effect.message for effect in mine.effects if isinstance(effect, Send)] == [
        says("before"),
        says("beside"),
        says("behind"),
    ]
    assert (mine.now_ms, meanwhile.now_ms) == (0, 500)
    assert mine.sequence < meanwhile.sequence
    assert turns.index(meanwhile) < turns.index(mine)
    assert {turn.cause for turn in turns if turn.sender == ref} == {mine.sequence}


async def _tells(ref: ActorRef, text: str) -> None:
    await asyncio.sleep(0)
    ref.tell(says(text))


def test_a_kill_can_be_planned_by_a_message_to_a_coroutine_actor(system: SeededSystem) -> None:
    done: list[str] = []

    async def deed(context: ActorContext) -> None:
        await context.sleep("1s")
        done.append("x")

    ref = system.spawn(does(deed), "a")
    plan = kill_when(system, "/user/a", lambda recipient, _: recipient == ref, count=2)
    for _ in range(3):
        ref.tell(says("go"))
    system.advance(10_000)

    assert plan.done
    assert done == ["x"]


def test_an_actor_may_become_a_coroutine_and_stash_during_it(system: SeededSystem) -> None:
    log: list[str] = []

    class Opening(Actor):
        async def handle_message(self, message: Message) -> None:
            match message:
                case Say(text="open"):
                    await self.context.sleep("1s")
                    self.context.become(self.opened)
                    self.context.unstash_all()
                case _:
                    self.context.stash()

        async def opened(self, message: Message) -> None:
            await self.context.sleep("1s")
            assert isinstance(message, Say)
            log.append(f"{message.text} at {self.context.now()}")

    ref = system.spawn(Props(Opening), "a")
    for text in ("early", "open", "late"):
        ref.tell(says(text))
    system.advance(10_000)

    assert log == ["early at 2000", "late at 3000"]


def test_a_receive_timeout_starts_at_the_end_of_the_coroutine(system: SeededSystem) -> None:
    heard: list[int] = []

    class Listening(Actor):
        def pre_start(self) -> None:
            self.context.set_receive_timeout("2s")

        async def handle_message(self, message: Message) -> None:
            match message:
                case Say():
                    await self.context.sleep("5s")
                case ReceiveTimeout():
                    heard.append(self.context.now())
                    self.context.set_receive_timeout(None)

    system.spawn(Props(Listening), "a").tell(says("x"))
    system.advance(10_000)

    assert heard == [7_000]


def test_an_actor_without_coroutines_may_run_on_the_loop(either: ActorSystem) -> None:
    ref = either.spawn(scripted_actor([], {"question": replies}).with_dispatcher("loop"), "a")

    assert ref.ask(says("question"), timeout=5) == says("reply")


async def _nothing(_context: ActorContext) -> None:
    pass


def test_coroutines_are_refused_outside_the_event_loop_dispatcher() -> None:
    assert does(_nothing).dispatcher == "loop"
    for dispatcher in ("default", "pinned"):
        with pytest.raises(ValueError, match="is a coroutine function: only"):
            does(_nothing).with_dispatcher(dispatcher)


def test_the_dispatcher_of_an_actor_from_a_factory_is_validated_at_creation(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    made = Props(lambda: Doer(_nothing))

    system.spawn(made, "wrong")
    right = system.spawn(made.with_dispatcher("loop"), "right")

    assert right.ask(says("go")) == says("done")
    assert "only Props.with_dispatcher('loop') can run it" in failures[0].failure.message


def test_a_hook_that_is_a_coroutine_function_is_refused(system: SeededSystem) -> None:
    class Hooked(Doer):
        async def pre_start(self) -> None:  # type: ignore[override]
            pass

    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    system.spawn(Props(Hooked, _nothing), "a")
    system.run_until_idle()

    assert "of an actor's methods only handle_message may be one" in failures[0].failure.message
