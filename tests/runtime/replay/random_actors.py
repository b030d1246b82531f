"""Actors that use every feature of the kernel, driven by their messages: equal messages cause equal actions."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.errors import KernelError
from flykka.runtime.leader_session import Gateway
from flykka.runtime.mailbox.message_queue import BoundedMailbox
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import ReceiveTimeout, Terminated
from flykka.runtime.supervision import AllForOne, Directive, OneForOne, SupervisorStrategy
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.backoff import Backoff

DEEPEST = 3
MOST_CHILDREN = 3


@message("random_actors.play")
class Play(Message):
    """anyone -> actor: perform `fuel` actions, drawn from `seed`; `other` is an actor to send messages to."""

    seed: int
    fuel: int
    other: Ref | None = None


@message("random_actors.question")
class Question(Message):
    """anyone -> actor: a question that may remain unanswered."""

    seed: int


@message("random_actors.answer")
class Answer(Message):
    """actor -> asker: the current count."""

    name: str
    count: int
    chance: float


class Wound(Exception):
    """A failure that carries the directive for its supervisor."""

    def __init__(self, directive: Directive) -> None:
        super().__init__(directive.value)
        self.directive = directive


def decide(error: BaseException) -> Directive:
    return error.directive if isinstance(error, Wound) else Directive.RESTART


STRATEGIES: tuple[SupervisorStrategy, ...] = (
    OneForOne(decider=decide),
    AllForOne(decider=decide, max_restarts=4, within_ms=1_000),
    OneForOne(decider=decide, backoff=Backoff(min_backoff="2ms", max_backoff="9ms")),
)


class RandomActor(Actor):
    def __init__(self, depth: int, strategy: int) -> None:
        self.depth = depth
        self.supervisor_strategy = STRATEGIES[strategy]
        self.known: list[Ref] = []
        self.unanswered: list[Ref] = []
        self.count = 0
        self.seen = 0

    def pre_start(self) -> None:
        self.count += 1
        self.context.accept_session(LeaderSessionId("good"))
        if self.context.random.random() < 0.1:
            raise Wound(Directive.STOP)

    def post_stop(self) -> None:
        for asker in self.unanswered:
            asker.tell(Answer(name="late", count=self.count, chance=0.0))

    def handle_message(self, message: Message) -> None:
        self.count += 1
        match message:
            case Play():
                self.plays(message)
            case Question(seed=seed):
                self.answers(random.Random(seed))
            case Terminated(ref=ref):
                self.seen += 1
                self.context.parent.tell(Answer(name=ref.path, count=self.seen, chance=0.0))
            case ReceiveTimeout():
                self.context.set_receive_timeout(None)
                self.context.unstash_all()
            case Answer(count=count):
                self.seen += count
            case _:
                self.context.unhandled(message)

    def plays(self, play: Play) -> None:
        dice = random.Random(play.seed)
        if play.other is not None:
            self.known = [*self.known, play.other][-4:]
        for _ in range(1 + play.fuel // 2):
            dice.choice(DEEDS)(self, dice, play.fuel - 1)

    def puts_aside(self, message: Message) -> None:
        """The behaviour of a closed actor: stash messages, or open."""
        match message:
            case Play(seed=seed) if seed % 3:
                self.context.stash()
            case _:
                self.context.become(self.handle_message)
                self.context.unstash_all()
                self.handle_message(message)

    def someone(self, dice: random.Random) -> Ref:
        around: list[Ref] = [*self.context.children, *self.known, self.context.ref]
        if self.context.sender is not None:
            around.append(self.context.sender)
        return dice.choice(around)

    def play(self, dice: random.Random, fuel: int) -> Play:
        return Play(seed=dice.randrange(1 << 30), fuel=fuel, other=dice.choice([None, self.someone(dice)]))

    # Actions

    def tells(self, dice: random.Random, fuel: int) -> None:
        if fuel > 0:
            self.someone(dice).tell(self.play(dice, fuel))

    def tells_as_leader(self, dice: random.Random, fuel: int) -> None:
        session = LeaderSessionId(dice.choice(["good", "stale"]))
        if fuel > 0:
            Gateway(self.someone(dice), session).tell(self.play(dice, fuel))

    def forwards(self, dice: random.Random, fuel: int) -> None:
        if fuel > 0:
            self.context.forward(self.someone(dice), self.play(dice, fuel))

    def selects(self, dice: random.Random, fuel: int) -> None:
        if fuel > 0 and self.context.children:
            self.context.actor_selection(dice.choice(["c0", "c*", "c1"])).tell(self.play(dice, fuel))

    def asks(self, dice: random.Random, _fuel: int) -> None:
        other = self.someone(dice)
        if isinstance(other, ActorRef):
            reply = other.ask(Question(seed=dice.randrange(1 << 30)), block=False, timeout=0.2)
            failed = Answer(name="failed", count=0, chance=0.0)
            self.context.pipe_to_self(reply, lambda answer: answer, lambda _: failed)

    def asks_and_waits(self, dice: random.Random, _fuel: int) -> None:
        # Only parents ask children, so that no two actors wait for each other; and an actor that waits has a thread
        # of its own.
        for child in self.context.children[:1]:
            with suppress(KernelError):
                self.context.parent.tell(child.ask(Question(seed=dice.randrange(1 << 30)), timeout=0.02))

    def spawns(self, dice: random.Random, fuel: int) -> None:
        names = {child.path.rpartition("/")[2] for child in self.context.children}
        free = [name for name in (f"c{place}" for place in range(MOST_CHILDREN)) if name not in names]
        if self.depth < DEEPEST and free:
            props = Props(RandomActor, self.depth + 1, dice.randrange(3)).with_dispatcher("pinned")
            if dice.random() < 0.3:
                props = props.with_mailbox(BoundedMailbox(3, "drop_oldest"))
            self.context.spawn(props, dice.choice(free)).tell(self.play(dice, fuel))

    def spawns_beside(self, dice: random.Random, fuel: int) -> None:
        ref = self.context.spawn_top_level(Props(RandomActor, DEEPEST, 0), self.context.new_id("beside"))
        ref.tell(self.play(dice, min(fuel, 1)))

    def watches(self, dice: random.Random, _fuel: int) -> None:
        self.context.watch(self.someone(dice))

    def watches_in_own_words(self, dice: random.Random, _fuel: int) -> None:
        self.context.watch(self.someone(dice), Question(seed=7))

    def unwatches(self, dice: random.Random, _fuel: int) -> None:
        self.context.unwatch(self.someone(dice))

    def stops(self, dice: random.Random, _fuel: int) -> None:
        if self.context.children:
            self.context.stop(dice.choice(self.context.children))

    def stops_itself(self, dice: random.Random, _fuel: int) -> None:
        if self.depth and dice.random() < 0.3:
            self.context.stop()

    def kills(self, dice: random.Random, _fuel: int) -> None:
        if self.context.children and dice.random() < 0.3:
            self.context.system.kill(dice.choice(self.context.children))

    def fails(self, dice: random.Random, _fuel: int) -> None:
        raise dice.choice([Wound(dice.choice(list(Directive))), ValueError(f"as the dice say, {self.count}")])

    def starts_timer(self, dice: random.Random, fuel: int) -> None:
        timers = self.context.timers
        start = dice.choice((timers.start_once, timers.start_fixed_delay, timers.start_fixed_rate))
        start(dice.choice("ab"), dice.randrange(1, 30), Play(seed=dice.randrange(1 << 30), fuel=min(fuel, 1)))

    def cancels_timer(self, dice: random.Random, _fuel: int) -> None:
        self.context.timers.cancel(dice.choice("ab"))

    def has_work_done(self, dice: random.Random, fuel: int) -> None:
        done = self.play(dice, min(fuel, 1))
        self.context.pipe_to_self(lambda: done, lambda outcome: outcome, lambda _: Question(seed=1))

    def has_bad_work_done(self, _dice: random.Random, _fuel: int) -> None:
        self.context.pipe_to_self(lambda: 1 // 0, lambda _: Question(seed=1), lambda _: [][0])

    def shuts(self, _dice: random.Random, _fuel: int) -> None:
        self.context.become(self.puts_aside)
        self.context.set_receive_timeout("8ms")

    def publishes(self, dice: random.Random, _fuel: int) -> None:
        self.context.publish(Question(seed=dice.randrange(9)))

    def rejects(self, dice: random.Random, _fuel: int) -> None:
        if dice.random() < 0.2:
            self.context.reject("it does not please me")

    def answers(self, dice: random.Random) -> None:
        """Answer at once, later, or never."""
        sender = self.context.sender
        if sender is None or dice.random() < 0.1:
            return
        if dice.random() < 0.2:
            self.unanswered.append(sender)
            return
        for asker in (*self.unanswered, sender):
            asker.tell(Answer(name=self.context.path, count=self.count, chance=self.context.random.random()))
        self.unanswered.clear()


Deed = Callable[[RandomActor, random.Random, int], None]

DEEDS: tuple[Deed, ...] = (
    *[RandomActor.tells] * 5,
    *[RandomActor.spawns] * 4,
    *[RandomActor.starts_timer] * 2,
    RandomActor.tells_as_leader,
    RandomActor.forwards,
    RandomActor.selects,
    RandomActor.asks,
    RandomActor.asks_and_waits,
    RandomActor.spawns_beside,
    RandomActor.watches,
    RandomActor.watches_in_own_words,
    RandomActor.unwatches,
    RandomActor.stops,
    RandomActor.stops_itself,
    RandomActor.kills,
    RandomActor.fails,
    RandomActor.cancels_timer,
    RandomActor.has_work_done,
    RandomActor.has_bad_work_done,
    RandomActor.shuts,
    RandomActor.publishes,
    RandomActor.rejects,
)


def spawn_random_actors(system: ActorSystem, seed: int, actors: int = 3) -> list[ActorRef]:
    dice = random.Random(seed)
    refs = [
        system.spawn(Props(RandomActor, 0, dice.randrange(3)).with_dispatcher("pinned"), f"p{n}") for n in range(actors)
    ]
    for ref in refs:
        for _ in range(6):
            ref.tell(Play(seed=dice.randrange(1 << 30), fuel=dice.randrange(2, 7), other=dice.choice(refs)))
    return refs
