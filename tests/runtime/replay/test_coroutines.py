"""Replays of actors whose handler is a coroutine: each coroutine resumes with the recorded results."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.errors import KernelError
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.text import effects_text


@message("relay.run")
class Run(Message):
    """anyone -> runner: take `steps` steps, drawn from `seed`, and report each to `other`."""

    seed: int
    steps: int
    other: Ref


@message("relay.step")
class Step(Message):
    """runner -> other: the index and time of a step."""

    at: int
    number: int
    what: str


@message("relay.ask")
class Ask(Message):
    """runner -> answerer: double this number. Some numbers fail or remain unanswered."""

    number: int


class Answerer(Actor):
    def handle_message(self, message: Message) -> None:
        match message:
            case Ask(number=number) if number % 7 == 0:
                raise ValueError(f"cannot double {number}")
            case Ask(number=number) if number % 5 and self.context.sender is not None:
                self.context.sender.tell(Step(at=0, number=2 * number, what="answer"))
            case _:
                pass


class Runner(Actor):
    """Sleeps, asks one or several actors, with and without a deadline, and sometimes stops or fails."""

    def __init__(self, answerer: Ref) -> None:
        self.answerer = answerer
        self.count = 0

    async def handle_message(self, message: Message) -> None:
        match message:
            case Run(seed=seed, steps=steps, other=other):
                dice = random.Random(seed)
                for _ in range(steps):
                    self.count += 1
                    what = await self.steps(dice)
                    other.tell(Step(at=self.context.now(), number=self.count, what=what))
            case Ask() if self.context.sender is not None:
                self.context.sender.tell(Step(at=0, number=self.count, what="done"))

    async def steps(self, dice: random.Random) -> str:
        match dice.randrange(8):
            case 0 | 1:
                await self.context.sleep(dice.randrange(1, 9))
                return "slept"
            case 2 | 3:
                return await self.asks(dice)
            case 4:
                answers = await asyncio.gather(self.asks(dice), self.asks(dice), self.naps(dice))
                return " and ".join(answers)
            case 5:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.004):
                        await self.context.sleep(dice.randrange(2, 7))
                        return "in time"
                return "too late"
            case 6 if dice.random() < 0.2:
                self.context.stop()
                return "stopping"
            case 7 if dice.random() < 0.3:
                raise ValueError("as the dice say")
            case _:
                return "nothing"

    async def naps(self, dice: random.Random) -> str:
        await self.context.sleep(dice.randrange(1, 4))
        return "napped"

    async def asks(self, dice: random.Random) -> str:
        assert isinstance(self.answerer, ActorRef)
        try:
            answer = await self.answerer.ask(Ask(number=dice.randrange(1, 100)), block=False, timeout=0.006)
        except KernelError as refusal:
            return type(refusal).__name__
        return str(answer.number)


class Listener(Actor):
    def __init__(self) -> None:
        self.heard = 0

    def handle_message(self, message: Message) -> None:
        self.heard += 1


def spawn_runners(system: ActorSystem, seed: int) -> list[ActorRef]:
    dice = random.Random(seed)
    answerer = system.spawn(Props(Answerer), "answerer")
    listener = system.spawn(Props(Listener), "listener")
    runners = [system.spawn(Props(Runner, answerer), f"r{number}") for number in range(3)]
    for runner in runners * 3:
        runner.tell(Run(seed=dice.randrange(1 << 30), steps=dice.randrange(1, 5), other=listener))
    return runners


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.trace"


@pytest.mark.parametrize("seed", range(15))
def test_coroutines_recorded_in_virtual_time_replay(path: Path, seed: int) -> None:
    with SeededSystem(seed, recorder=TraceRecorder(path)) as system:
        runners = spawn_runners(system, seed)
        system.advance(seed)
        system.kill(runners[0])
        system.advance(20 + seed)

    result = TraceReplayer().replay(path, raise_on_divergence=True)

    assert (result.compared, result.boundary) == (result.turns, ())


@pytest.mark.parametrize("seed", range(6))
def test_coroutines_recorded_on_a_real_loop_replay(path: Path, seed: int) -> None:
    with ActorSystem("real", seed=seed, recorder=TraceRecorder(path), serialize_messages=True) as system:
        runners = spawn_runners(system, seed)
        system.kill(runners[0])
        for runner in runners[1:]:
            with suppress(KernelError):
                runner.ask(Ask(number=1), timeout=2)  # This ask is handled after all earlier messages.

    result = TraceReplayer().replay(path, raise_on_divergence=True)

    assert (result.compared, result.boundary) == (result.turns, ())


class Sleeper(Actor):
    async def handle_message(self, message: Message) -> None:
        await asyncio.sleep(0.005)
        self.context.parent.tell(Step(at=0, number=0, what="slept"))


class Waker(Actor):
    """Stops another actor at the moment when its sleep ends."""

    def __init__(self, other: Ref) -> None:
        self.other = other

    def pre_start(self) -> None:
        self.context.timers.start_once("stop", 5, Ask(number=0))

    def handle_message(self, message: Message) -> None:
        self.context.stop(self.other)


@pytest.mark.parametrize(("seed", "end"), [(1, "sends Step to /user"), (2, "goes on with CancelledError")])
def test_an_asyncio_wait_interrupted_by_a_stop_is_interrupted_in_replay(path: Path, seed: int, end: str) -> None:
    with SeededSystem(seed, recorder=TraceRecorder(path)) as system:
        sleeper = system.spawn(Props(Sleeper).with_dispatcher("loop"), "sleeper")
        sleeper.tell(Ask(number=1))
        system.spawn(Props(Waker, sleeper), "waker")
        system.advance(10)

    assert any(effects_text(turn).startswith(end) for turn in TraceReader.open(path).turns)
    assert TraceReplayer().replay(path, raise_on_divergence=True).boundary == ()
