"""Actors that perform random actions on each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import AllForOne, Directive, OneForOne, SupervisorStrategy
from flykka.runtime.system import ActorSystem
from flykka.runtime.time.backoff import Backoff
from tests.runtime.model.laws import World
from tests.runtime.model.messages import Answer, Do, Done, Question, Tick

MOST_ACTORS = 40
DEEPEST_ASK = 5
"""The limit of actors that wait within each other's turns: all their frames are on one stack."""


class Wound(Exception):
    """A failure that carries the directive for its supervisor."""

    def __init__(self, directive: Directive) -> None:
        super().__init__(directive.value)
        self.directive = directive


def decide(error: BaseException) -> Directive:
    """The directive of a `Wound`; any other error restarts."""
    return error.directive if isinstance(error, Wound) else Directive.RESTART


def cannot_decide(error: BaseException) -> Directive:
    """A decider that raises."""
    raise LookupError("no directive for this") from error


STRATEGIES: tuple[SupervisorStrategy, ...] = (
    OneForOne(decider=decide),
    OneForOne(),
    AllForOne(decider=decide),
    OneForOne(decider=decide, max_restarts=2, within_ms=1_000),
    OneForOne(decider=cannot_decide),
    OneForOne(decider=decide, backoff=Backoff(min_backoff="10ms", max_backoff="40ms")),
)


def some_failure(world: World) -> BaseException:
    """A random failure."""
    failures = (*map(Wound, Directive), RuntimeError("as the dice say"), SystemExit(1), KeyboardInterrupt())
    return world.dice.choice(failures)


def perhaps_fail(world: World) -> None:
    """Raise with a small probability."""
    if world.likely(0.02):
        raise some_failure(world)


def spawn(world: World, spawner: ActorSystem | ActorContext) -> None:
    """Spawn a new actor, at the top or below another one."""
    pinned = world.dice.random() < 0.2
    props = Props(Creature, world, world.dice.choice(STRATEGIES), pinned)
    ref = spawner.spawn(props.with_dispatcher("pinned" if pinned else "default"), f"c{world.token()}")
    if isinstance(spawner, ActorSystem) or spawner.ref.is_alive():
        world.spawned(ref)


class Resource:
    def __init__(self, world: World) -> None:
        self._world = world
        self._is_closed = False
        world.opened += 1

    def close(self) -> None:
        if self._is_closed:
            self._world.breaks("every resource is closed once", self)
        self._is_closed = True
        self._world.closed += 1


class Creature(Actor):
    """Performs random actions."""

    def __init__(self, world: World, strategy: SupervisorStrategy, pinned: bool) -> None:
        perhaps_fail(world)
        self.world = world
        self.supervisor_strategy = strategy
        self.pinned = pinned
        self.last_hooks = 0
        self.started: dict[str, int] = {}
        self.unanswered: list[tuple[Ref, int]] = []
        self.shut = False
        self._busy = False

    @property
    def me(self) -> ActorRef:
        return self.context.ref

    def pre_start(self) -> None:
        self.world.begins(self)
        perhaps_fail(self.world)

    def post_stop(self) -> None:
        self.world.last_hook(self)
        if self.world.likely(0.02):
            self.spawns(0)
        perhaps_fail(self.world)

    def pre_restart(self, cause: BaseException | None) -> None:
        if self.world.likely(0.3):
            self.post_stop()  # As an actor that keeps its children.
        else:
            super().pre_restart(cause)

    def handle_message(self, message: Message) -> None:
        with self._alone():
            match message:
                case Do() | Question() if self.shut:
                    self.puts_aside()
                case Do(fuel=fuel):
                    self.world.takes(self, message)
                    self.does(fuel)
                case Question(token=token, fuel=fuel):
                    self.world.takes(self, message)
                    self.answers(token)
                    self.does(fuel)
                case Terminated(ref=ref):
                    self.world.news(self.me, ref)
                    perhaps_fail(self.world)
                case Tick(token=token):
                    self.ticks(token)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._busy:
            self.world.breaks("an actor takes one turn at a time", self.me)
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def does(self, fuel: int) -> None:
        """Perform one action, or several if `fuel` allows."""
        for _ in range(1 if fuel < 3 else 2):
            deed = self.world.dice.choice(CALM_DEEDS if self.world.calm else DEEDS)
            deed(self, fuel)

    def spawns(self, _fuel: int) -> None:
        if self.world.living < MOST_ACTORS:
            spawn(self.world, self.context)

    def tells(self, fuel: int) -> None:
        if fuel:
            self.world.tell(self.world.someone(), self.me, fuel - 1)

    def asks(self, fuel: int) -> None:
        if fuel:
            self.world.ask(self.world.someone(), self.me, fuel - 1)

    def asks_and_waits(self, fuel: int) -> None:
        # On threads, an actor that blocks has a thread of its own.
        may_wait = self.world.depth < DEEPEST_ASK if self.world.exact else self.pinned
        if fuel and may_wait:
            self.world.ask(self.world.someone(), self.me, fuel - 1, block=True)

    def answers(self, token: int) -> None:
        """Answer at once, later, or never."""
        sender = self.context.sender
        assert sender is not None
        if self.world.likely(0.3):
            self.unanswered.append((sender, token))
        elif not self.world.likely(0.1):
            sender.tell(Answer(token=token))

    def answers_late(self, _fuel: int) -> None:
        while self.unanswered:
            asker, token = self.unanswered.pop()
            asker.tell(Answer(token=token))

    def watches(self, _fuel: int) -> None:
        other = self.world.someone()
        if other != self.me and self.me.is_alive():
            self.world.watches(self.me, other)
            self.context.watch(other)

    def unwatches(self, _fuel: int) -> None:
        watched = self.world.watched_by(self.me)
        other = self.world.dice.choice(watched) if watched else self.world.someone()
        self.world.unwatches(self.me, other)
        self.context.unwatch(other)

    def stops(self, _fuel: int) -> None:
        self.context.stop(self.world.someone() if self.world.dice.random() < 0.5 else None)

    def kills(self, _fuel: int) -> None:
        self.context.system.kill(self.world.someone())

    def fails(self, _fuel: int) -> None:
        raise some_failure(self.world)

    def starts_timer(self, _fuel: int) -> None:
        key, token = self.world.dice.choice("abc"), self.world.token()
        self.started[key] = token
        start = self.world.dice.choice((self.context.timers.start_once, self.context.timers.start_fixed_delay))
        start(key, self.world.dice.randrange(1, 50), Tick(token=token))

    def cancels_timer(self, _fuel: int) -> None:
        key = self.world.dice.choice("abc")
        self.started.pop(key, None)
        self.context.timers.cancel(key)

    def ticks(self, token: int) -> None:
        """Handle a tick of a timer that was neither cancelled nor replaced; mostly stop then."""
        if token not in self.started.values():
            self.world.breaks("no timer fires that was cancelled, replaced or left by a restart", self.me)
        if self.world.calm or self.world.dice.random() < 0.7:
            for key in "abc":
                self.context.timers.cancel(key)
            self.started.clear()

    def has_work_done(self, _fuel: int) -> None:
        token = self.world.token()
        self.context.pipe_to_self(self.world.token, lambda _: Done(token=token), lambda _: Done(token=token))

    def shuts(self, _fuel: int) -> None:
        self.shut = not self.world.calm

    def puts_aside(self) -> None:
        """Stash all messages while closed; once open, handle them in order."""
        self.context.stash()
        if not self.world.likely(0.8):
            self.shut = False
            self.context.unstash_all()

    def owns(self, _fuel: int) -> None:
        self.context.own(Resource(self.world))


Deed = Callable[[Creature, int], None]

CALM_DEEDS: tuple[Deed, ...] = (
    Creature.tells,
    Creature.asks,
    Creature.answers_late,
    Creature.unwatches,
    Creature.cancels_timer,
)
DEEDS: tuple[Deed, ...] = (
    *CALM_DEEDS,
    *[Creature.tells] * 3,
    *[Creature.asks] * 2,
    *[Creature.spawns] * 4,
    *[Creature.watches] * 3,
    *[Creature.fails] * 2,
    Creature.asks_and_waits,
    Creature.stops,
    Creature.kills,
    Creature.starts_timer,
    Creature.has_work_done,
    Creature.shuts,
    Creature.owns,
)
