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
from tests.runtime.model.laws import LawRecords
from tests.runtime.model.messages import Answer, Do, Done, Question, Tick

MOST_ACTORS = 40
DEEPEST_ASK = 5
"""The maximum number of actors that wait within each other's turns; the frames of all these turns are on one stack."""


class Wound(Exception):
    """A failure that carries the directive for its supervisor."""

    def __init__(self, directive: Directive) -> None:
        super().__init__(directive.value)
        self.directive = directive


def decide(error: BaseException) -> Directive:
    """Return the directive of a `Wound`; restart after any other error."""
    return error.directive if isinstance(error, Wound) else Directive.RESTART


def cannot_decide(error: BaseException) -> Directive:
    raise LookupError("no directive for this") from error


STRATEGIES: tuple[SupervisorStrategy, ...] = (
    OneForOne(decider=decide),
    OneForOne(),
    AllForOne(decider=decide),
    OneForOne(decider=decide, max_restarts=2, within_ms=1_000),
    OneForOne(decider=cannot_decide),
    OneForOne(decider=decide, backoff=Backoff(min_backoff="10ms", max_backoff="40ms")),
)


def some_failure(records: LawRecords) -> BaseException:
    failures = (*map(Wound, Directive), RuntimeError("as the dice say"), SystemExit(1), KeyboardInterrupt())
    return records.dice.choice(failures)


def perhaps_fail(records: LawRecords) -> None:
    if records.likely(0.02):
        raise some_failure(records)


def spawn(records: LawRecords, spawner: ActorSystem | ActorContext) -> None:
    pinned = records.dice.random() < 0.2
    props = Props(Creature, records, records.dice.choice(STRATEGIES), pinned)
    ref = spawner.spawn(props.with_dispatcher("pinned" if pinned else "default"), f"c{records.token()}")
    if isinstance(spawner, ActorSystem) or spawner.ref.is_alive():
        records.spawned(ref)


class Resource:
    def __init__(self, records: LawRecords) -> None:
        self._world = records
        self._is_closed = False
        records.opened += 1

    def close(self) -> None:
        if self._is_closed:
            self._world.breaks("every resource is closed once", self)
        self._is_closed = True
        self._world.closed += 1


class Creature(Actor):
    def __init__(self, records: LawRecords, strategy: SupervisorStrategy, pinned: bool) -> None:
        perhaps_fail(records)
        self.records = records
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
        self.records.begins(self)
        perhaps_fail(self.records)

    def post_stop(self) -> None:
        self.records.last_hook(self)
        if self.records.likely(0.02):
            self.spawns(0)
        perhaps_fail(self.records)

    def pre_restart(self, cause: BaseException | None) -> None:
        if self.records.likely(0.3):
            self.post_stop()  # This actor keeps its children.
        else:
            super().pre_restart(cause)

    def handle_message(self, message: Message) -> None:
        with self._alone():
            match message:
                case Do() | Question() if self.shut:
                    self.puts_aside()
                case Do(fuel=fuel):
                    self.records.takes(self, message)
                    self.does(fuel)
                case Question(token=token, fuel=fuel):
                    self.records.takes(self, message)
                    self.answers(token)
                    self.does(fuel)
                case Terminated(ref=ref):
                    self.records.news(self.me, ref)
                    perhaps_fail(self.records)
                case Tick(token=token):
                    self.ticks(token)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._busy:
            self.records.breaks("an actor takes one turn at a time", self.me)
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def does(self, fuel: int) -> None:
        """Perform one action, or several if `fuel` allows."""
        for _ in range(1 if fuel < 3 else 2):
            deed = self.records.dice.choice(CALM_DEEDS if self.records.calm else DEEDS)
            deed(self, fuel)

    def spawns(self, _fuel: int) -> None:
        if self.records.living < MOST_ACTORS:
            spawn(self.records, self.context)

    def tells(self, fuel: int) -> None:
        if fuel:
            self.records.tell(self.records.someone(), self.me, fuel - 1)

    def asks(self, fuel: int) -> None:
        if fuel:
            self.records.ask(self.records.someone(), self.me, fuel - 1)

    def asks_and_waits(self, fuel: int) -> None:
        # On threads, an actor that blocks has a thread of its own.
        may_wait = self.records.depth < DEEPEST_ASK if self.records.exact else self.pinned
        if fuel and may_wait:
            self.records.ask(self.records.someone(), self.me, fuel - 1, block=True)

    def answers(self, token: int) -> None:
        """Answer at once, later, or never."""
        sender = self.context.sender
        assert sender is not None
        if self.records.likely(0.3):
            self.unanswered.append((sender, token))
        elif not self.records.likely(0.1):
            sender.tell(Answer(token=token))

    def answers_late(self, _fuel: int) -> None:
        while self.unanswered:
            asker, token = self.unanswered.pop()
            asker.tell(Answer(token=token))

    def watches(self, _fuel: int) -> None:
        other = self.records.someone()
        if other != self.me and self.me.is_alive():
            self.records.watches(self.me, other)
            self.context.watch(other)

    def unwatches(self, _fuel: int) -> None:
        watched = self.records.watched_by(self.me)
        other = self.records.dice.choice(watched) if watched else self.records.someone()
        self.records.unwatches(self.me, other)
        self.context.unwatch(other)

    def stops(self, _fuel: int) -> None:
        self.context.stop(self.records.someone() if self.records.dice.random() < 0.5 else None)

    def kills(self, _fuel: int) -> None:
        self.context.system.kill(self.records.someone())

    def fails(self, _fuel: int) -> None:
        raise some_failure(self.records)

    def starts_timer(self, _fuel: int) -> None:
        key, token = self.records.dice.choice("abc"), self.records.token()
        self.started[key] = token
        start = self.records.dice.choice((self.context.timers.start_once, self.context.timers.start_fixed_delay))
        start(key, self.records.dice.randrange(1, 50), Tick(token=token))

    def cancels_timer(self, _fuel: int) -> None:
        key = self.records.dice.choice("abc")
        self.started.pop(key, None)
        self.context.timers.cancel(key)

    def ticks(self, token: int) -> None:
        """Handle a tick of a timer that was neither cancelled nor replaced; usually stop all timers."""
        if token not in self.started.values():
            self.records.breaks("no timer fires that was cancelled, replaced or left by a restart", self.me)
        if self.records.calm or self.records.dice.random() < 0.7:
            for key in "abc":
                self.context.timers.cancel(key)
            self.started.clear()

    def has_work_done(self, _fuel: int) -> None:
        token = self.records.token()
        self.context.pipe_to_self(self.records.token, lambda _: Done(token=token), lambda _: Done(token=token))

    def shuts(self, _fuel: int) -> None:
        self.shut = not self.records.calm

    def puts_aside(self) -> None:
        """Stash all messages while closed, and unstash them when opened."""
        self.context.stash()
        if not self.records.likely(0.8):
            self.shut = False
            self.context.unstash_all()

    def owns(self, _fuel: int) -> None:
        self.context.own(Resource(self.records))


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
