"""The laws of the kernel, and the records of all events in one system.

An assertion that fails within an actor would be another failure for its parent to handle. A broken law is therefore
recorded, and the test checks the records.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Protocol

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.errors import AskCycleError, KernelError
from flykka.runtime.events import ActorTerminated, DeadLetter, EndReason
from flykka.runtime.futures.future import Future
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from tests.runtime.model.messages import Answer, Do, Question


class Lived(Protocol):
    last_hooks: int

    @property
    def me(self) -> ActorRef: ...


class LawRecords:
    """The records of all actors of one system.

    Args:
        seed: the seed of the random numbers.
        exact: False on threads. A turn on another thread may then continue unobserved after a kill, and the end of an
            actor becomes visible to different observers at different moments. Laws about these moments are checked only
            if this is True.
    """

    def __init__(self, seed: int, *, exact: bool = True) -> None:
        self.dice = random.Random(seed)
        self.exact = exact
        self.broken: list[str] = []
        self.happened: list[str] = []
        self.refs: list[ActorRef] = []
        self.calm = False
        self.depth = 0
        self.asks: dict[int, Future[Message]] = {}
        self.opened = 0
        self.closed = 0
        self._tokens = itertools.count(1)
        self._sent: Counter[tuple[str, Ref]] = Counter()
        self._heard: dict[tuple[str, Ref], int] = {}
        self.spoken_by: dict[int, str] = {}
        self._tell_tokens: set[int] = set()
        self._taken: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._children: defaultdict[str, set[Ref]] = defaultdict(set)
        self._instances: dict[Ref, Lived] = {}
        self._living: dict[Ref, ActorRef] = {}
        self._watching: set[tuple[Ref, Ref]] = set()
        self.ended: dict[Ref, EndReason] = {}

    def attach(self, system: ActorSystem) -> None:
        system.event_stream.subscribe(self._on_dead_letter, DeadLetter)
        system.event_stream.subscribe(self._on_terminated, ActorTerminated)

    def breaks(self, law: str, what: object) -> None:
        self.broken.append(f"{law}: {what}")

    def likely(self, probability: float) -> bool:
        """Draw with this probability; always False while the model shuts down."""
        return not self.calm and self.dice.random() < probability

    def someone(self) -> ActorRef:
        """Return a random actor, usually a living one."""
        living = list(self._living.values())
        return self.dice.choice(living if living and self.dice.random() < 0.9 else self.refs)

    @property
    def living(self) -> int:
        return len(self._living)

    def token(self) -> int:
        return next(self._tokens)

    # Sending

    def tell(self, ref: ActorRef, speaker: ActorRef | None, fuel: int) -> None:
        ref.tell(self._declared(Do, ref, speaker, fuel))

    def ask(self, ref: ActorRef, speaker: ActorRef | None, fuel: int, *, block: bool = False) -> None:
        """Ask `ref`; check that the ask is completed, and only by its own answer."""
        question = self._declared(Question, ref, speaker, fuel)
        if not block:
            reply = self.asks[question.token] = ref.ask(question, block=False, timeout=5)
            reply.add_done_callback(lambda: self._on_reply(question.token, reply))
            return
        self.depth += 1
        try:
            self._check_answer(question.token, ref.ask(question, timeout=0.5))
        except AskCycleError:
            self._tell_tokens.discard(question.token)  # The question was never sent.
        except KernelError:
            pass  # Any kernel error is an acceptable outcome.
        finally:
            self.depth -= 1

    def ask_and_wait(self, ref: ActorRef) -> None:
        question = self._declared(Question, ref, None, 0)
        with suppress(KernelError):
            self._check_answer(question.token, ref.ask(question, timeout=0.1))

    @property
    def arrived(self) -> set[int]:
        """The tokens of all messages that were handled or became dead letters."""
        return set(self._taken) | set(self._lost)

    def _declared(
        self, kind: type[Do] | type[Question], ref: Ref, speaker: ActorRef | None, fuel: int
    ) -> Do | Question:
        name = threading.current_thread().name if speaker is None else str(speaker)
        self._sent[name, ref] += 1
        token = self.token()
        self.spoken_by[token] = name
        if speaker is None or (self.exact and speaker.is_alive()):
            self._tell_tokens.add(token)  # Otherwise the message may be dropped with the killed speaker.
        return kind(token=token, speaker=name, number=self._sent[name, ref], fuel=fuel)

    def _on_reply(self, token: int, reply: Future[Message]) -> None:
        with suppress(KernelError):
            self._check_answer(token, reply.get(timeout=0))

    def _check_answer(self, token: int, answer: Message) -> None:
        if answer != Answer(token=token):
            self.breaks("an ask gets the answer to its own question", f"{token} got {answer}")

    # Life cycle of creatures

    def spawned(self, ref: ActorRef) -> None:
        self.refs.append(ref)
        self._living[ref] = ref
        self._children[ref.path.rpartition("/")[0]].add(ref)
        if ref in self.ended:
            self._forget(ref)  # The actor has already ended on another thread.

    def begins(self, creature: Lived) -> None:
        self._instances[creature.me] = creature
        self.happened.append(f"{creature.me} begins")

    def last_hook(self, creature: Lived) -> None:
        creature.last_hooks += 1
        if creature.last_hooks > 1:
            self.breaks("an instance has one last hook", creature.me)
        if creature.me in self.ended and not self._is_unheard(creature.me):
            self.breaks("no hook runs behind the end", creature.me)
        self.happened.append(f"{creature.me} has its last hook")

    def takes(self, creature: Lived, taken: Do | Question) -> None:
        me = creature.me
        self._taken[taken.token] += 1
        if self._taken[taken.token] > 1 or taken.token in self._lost:
            self.breaks("a message is handled once, or is a dead letter", taken)
        if (me in self.ended or creature.last_hooks) and not self._is_unheard(me):
            self.breaks("no message is handled behind the last hook", f"{me}: {taken}")
        before = self._heard.get((taken.speaker, me), 0)
        if taken.number <= before:
            self.breaks("messages between two come in their order", f"{me}: {taken} behind {before}")
        self._heard[taken.speaker, me] = taken.number
        self.happened.append(f"{me} takes {taken.token}")

    def watches(self, watcher: Ref, watched: Ref) -> None:
        self._watching.add((watcher, watched))

    def unwatches(self, watcher: Ref, watched: Ref) -> None:
        self._watching.discard((watcher, watched))

    def watched_by(self, watcher: Ref) -> list[Ref]:
        """Watched actors whose `Terminated` has not arrived; if some of them have ended, only the ended ones."""
        watched = sorted((each for by, each in self._watching.copy() if by == watcher), key=str)
        return [each for each in watched if each in self.ended] or watched

    def news(self, watcher: Ref, watched: Ref) -> None:
        if (watcher, watched) not in self._watching:
            self.breaks("Terminated comes once a watch, and not behind an unwatch", f"{watcher} of {watched}")
        if self.exact and watched not in self.ended and watched in self.refs:
            self.breaks("Terminated comes behind the end", f"{watcher} of {watched}")
        self._watching.discard((watcher, watched))
        self.happened.append(f"{watcher} sees the end of {watched}")

    def _on_dead_letter(self, letter: DeadLetter) -> None:
        if isinstance(letter.message, Do | Question):
            token = letter.message.token
            self._lost[token] += 1
            if self._lost[token] > 1 or token in self._taken:
                self.breaks("a message is handled once, or is a dead letter", letter.message)

    def _on_terminated(self, end: ActorTerminated) -> None:
        if end.ref in self.ended:
            self.breaks("an actor ends once", end.ref)
        self.ended[end.ref] = end.reason
        for child in self._children[end.ref.path].copy():
            if self.exact or _cell(child).end_reason is None:
                self.breaks("children end before their parents", f"{end.ref} before {child}")
        self._forget(end.ref)
        instance = self._instances.get(end.ref)
        if instance is not None and end.reason is EndReason.STOPPED and instance.last_hooks != 1:
            self.breaks("an actor that is stopped has its last hook first", end.ref)
        self.happened.append(f"{end.ref} has ended: {end.reason}")

    def _forget(self, ref: Ref) -> None:
        self._living.pop(ref, None)
        self._children[ref.path.rpartition("/")[0]].discard(ref)

    def _is_unheard(self, ref: Ref) -> bool:
        """True if a turn of this actor may still run after a kill."""
        return not self.exact and self.ended.get(ref) is EndReason.KILLED

    # Laws at rest and after termination

    def check_at_rest(self, system: ActorSystem) -> None:
        pending = sum(not reply.done() for reply in self.asks.values())
        if len(system._promises) != pending:
            self.breaks("no ask is kept that has ended", f"{len(system._promises)} of {pending}")
        for ref in list(self._living.values()):
            cell = _cell(ref)
            if _waits_for_time(ref):
                continue
            if cell.state is not CellState.RUNNING:
                self.breaks("at rest nobody waits for a directive", f"{ref} is {cell.state}")
            if not ref.actor_inbox.empty():
                self.breaks("at rest no message waits", ref)
        for watcher, watched in self._watching:
            if watcher not in self.ended and watched in self.ended and not _waits_for_time(watcher):
                self.breaks("a watcher that lives hears of the end", f"{watcher} of {watched}")

    def check_ended(self, system: ActorSystem) -> None:
        for law, rest in (
            ("every actor ends", set(self.refs) - set(self.ended)),
            ("no message is lost", self._tell_tokens - self.arrived),
            ("every ask is completed", {token for token, reply in self.asks.items() if not reply.done()}),
            ("no ask is kept", set(system._promises)),
            ("every resource is closed once", self.opened - self.closed),
            ("no path is kept", set(system.cells.living_paths())),
        ):
            if rest:
                self.breaks(law, rest)
        for ref in self.refs:
            held = _held(_cell(ref))
            if held:
                self.breaks("an ended actor holds nothing", f"{ref}: {held}")


def _cell(ref: Ref) -> Cell:
    assert isinstance(ref, ActorRef)
    cell = ref.actor_inbox.owner
    assert isinstance(cell, Cell)
    return cell


def _held(cell: Cell) -> list[str]:
    """Objects that an ended cell still references. The turn of an actor that was killed by another thread may still run
    for a moment.
    """
    assert cell.mailbox._claim.acquire(timeout=10), "a turn does not end"
    kept = {
        "an instance": cell.instance,
        "timers": cell.timers._active,
        "resources": cell.resources._resources,
        "messages": cell.mailbox.messages,
        "signals": cell.mailbox.control,
        "a stash": cell.stash,
    }
    return [what for what, thing in kept.items() if thing]


def _waits_for_time(ref: Ref) -> bool:
    """True if the actor restarts only when time advances, because of its own backoff or that of an ancestor."""
    cell: Cell | None = _cell(ref)
    while cell is not None and cell.faults._backoff is None:
        cell = cell.parent
    return cell is not None
