"""A few thousand random moves on random trees of actors, and what must hold whatever the order was."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from flykka.messages.message import Message, message
from flykka.messages.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.events import ActorFailed, ActorTerminated, DeadLetter
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import Terminated
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem


@message("test.move")
class Move(Message):
    """test -> Walker: do something drawn by `dice`; `token` names this message."""

    dice: int
    token: int


class World:
    """What the walkers and the test know together."""

    def __init__(self) -> None:
        self.handled: Counter[int] = Counter()
        self.tokens = itertools.count(1)
        self.told: set[int] = set()
        self.watches: Counter[tuple[str, str]] = Counter()
        self.news: Counter[tuple[str, str]] = Counter()
        self.started: list[str] = []
        self.ended: list[str] = []
        self.refs: list[ActorRef] = []

    def move(self, dice: random.Random) -> Move:
        return Move(dice=dice.randrange(1 << 30), token=next(self.tokens))

    def tell(self, ref: Ref, dice: random.Random) -> None:
        move = self.move(dice)
        self.told.add(move.token)
        ref.tell(move)


class Walker(Actor):
    """Spawns, watches, stops, fails, starts timers and passes moves on, as the dice say."""

    def __init__(self, world: World) -> None:
        self.world = world

    def pre_start(self) -> None:
        self.world.started.append(str(self.context.ref))

    def post_stop(self) -> None:
        self.world.ended.append(str(self.context.ref))
        if not self.restarting:
            assert not self.context.children, "children stop before parents"

    restarting = False

    def pre_restart(self, cause: BaseException | None) -> None:
        self.restarting = True
        super().pre_restart(cause)

    def handle_message(self, message: Message) -> None:
        match message:
            case Move(dice=dice, token=token):
                self.world.handled[token] += 1
                self.go(random.Random(dice))
            case Terminated(ref=ref):
                self.world.news[str(self.context.ref), str(ref)] += 1

    def go(self, dice: random.Random) -> None:
        world, context = self.world, self.context
        other = dice.choice(world.refs)
        match dice.randrange(8):
            case 0 | 1:
                world.refs.append(context.spawn(Props(Walker, world), context.new_id("w")))
            case 2:
                pair = (str(context.ref), str(other))
                if other != context.ref and not world.watches[pair]:
                    world.watches[pair] += 1
                    context.watch(other)
            case 3:
                context.stop(other if dice.random() < 0.3 else None)
            case 4:
                raise RuntimeError("as the dice say")
            case 5:
                context.timers.start_once("t", dice.randrange(50), world.move(dice))
            case _:
                world.tell(other, dice)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_order_nothing_is_lost_and_nothing_happens_twice(seed: int) -> None:
    world = World()
    dice = random.Random(seed)
    letters: list[DeadLetter] = []
    ends: Counter[str] = Counter()
    system = SeededSystem(seed)
    system.event_stream.subscribe(letters.append, DeadLetter)
    failures: list[str] = []
    system.event_stream.subscribe(lambda failed: failures.append(failed.failure.message), ActorFailed)
    system.event_stream.subscribe(lambda end: ends.update([str(end.ref)]), ActorTerminated)
    for number in range(4):
        world.refs.append(system.spawn(Props(Walker, world), f"top{number}"))

    for _ in range(400):
        shake(system, world, dice)
    system.terminate().wait(timeout=60)

    assert set(failures) == {"as the dice say"}
    assert max(world.handled.values()) == 1
    lost = [letter.message.token for letter in letters if isinstance(letter.message, Move)]
    assert len(lost) == len(set(lost))
    assert not set(lost) & set(world.handled)
    assert world.told <= set(lost) | set(world.handled)
    assert all(count == 1 for count in ends.values())
    assert set(world.started) >= set(world.ended)
    assert all(world.news[pair] <= count for pair, count in world.watches.items())
    assert not set(world.news) - set(world.watches)


def shake(system: SeededSystem, world: World, dice: random.Random) -> None:
    match dice.randrange(12):
        case 0:
            system.kill(dice.choice(world.refs))
        case 1:
            world.refs.append(system.spawn(Props(Walker, world), f"top{len(world.refs)}-{dice.randrange(1 << 30)}"))
        case 2:
            system.advance(dice.randrange(40))
        case _:
            world.tell(dice.choice(world.refs), dice)
    for _ in range(dice.randrange(30)):
        system.schedule.step()


@pytest.mark.parametrize("seed", range(3))
def test_a_watcher_that_lives_hears_of_every_end_it_watches(seed: int) -> None:
    world = World()
    dice = random.Random(seed)
    with SeededSystem(seed) as system:
        watcher = system.spawn(Props(Walker, world), "watcher")
        system.run_until_idle()
        for number in range(60):
            ref = system.spawn(Props(Walker, world), f"w{number}")
            world.refs = [ref]
            watcher.tell(Move(dice=_draw(2), token=-number))
            for _ in range(dice.randrange(12)):
                system.schedule.step()
            if dice.random() < 0.5:
                system.kill(ref)
            else:
                ref.stop(block=False)
            system.run_until_idle()

        assert sum(world.watches.values()) == 60
        assert world.news == world.watches


def _draw(wanted: int) -> int:
    """A dice value whose second draw is `wanted`, where there is one ref to choose first."""
    for value in range(1000):
        draw = random.Random(value)
        draw.choice([0])
        if draw.randrange(8) == wanted:
            return value
    raise AssertionError(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_on_threads_too_nothing_happens_twice_and_every_actor_ends_once(seed: int) -> None:
    world = World()
    dice = random.Random(seed)
    letters: list[DeadLetter] = []
    ends: list[str] = []
    with ActorSystem("threads", seed=seed, dispatcher=SharedPool(3, throughput=2)) as system:
        system.event_stream.subscribe(letters.append, DeadLetter)
        system.event_stream.subscribe(lambda end: ends.append(str(end.ref)), ActorTerminated)
        for number in range(4):
            world.refs.append(system.spawn(Props(Walker, world), f"top{number}"))
        for number in range(300):
            if dice.random() < 0.1:
                system.kill(dice.choice(world.refs))
                world.refs.append(system.spawn(Props(Walker, world), f"more{number}"))
            world.tell(dice.choice(world.refs), dice)

    assert max(world.handled.values()) == 1
    lost = [letter.message.token for letter in letters if isinstance(letter.message, Move)]
    assert len(lost) == len(set(lost))
    assert not set(lost) & set(world.handled)
    assert len(ends) == len(set(ends))
    assert {str(ref) for ref in world.refs} <= set(ends)
    assert not any(ref.is_alive() for ref in world.refs)
