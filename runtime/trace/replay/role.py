"""The part of an actor that a fork does not run, played as it was recorded, for as long as it fits.

It fits while the actor is told what it was told then. The order is free, for between several who tell it the fork may
come to another one. What the actor told itself comes when all has been said that was said before it then, and as much
later as it came then; so does what it was told from outside of all turns, where it was spawned by an actor: then it is
somebody's servant, and its threads work on what they were given. The first message that was not recorded ends the part,
if there is somebody who plays on. If not, nobody answers that message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message, Value
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.signals import Create, Unread
from flykka.runtime.trace.effects import Effect, Reply, Send, Spawn, Stop, Unwatch, Watch
from flykka.runtime.trace.replay.living import UnknownTypeError, error_of, living
from flykka.runtime.trace.replay.system import BOUNDARY

if TYPE_CHECKING:
    from flykka.runtime.context import ActorContext
    from flykka.runtime.trace.effects import Undecoded
    from flykka.runtime.trace.records import Turn

PlayOn = Callable[[Message], object]
"""Handles a message in the turn of an actor whose part has ended."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that a boundary was told, or told itself, and what it did then."""

    message: Value | Undecoded
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A part that ends: whose it is, what has been said in it so far, and what the parent of that actor was made of."""

    context: ActorContext
    past: list[Heard]
    parent_arguments: tuple[object, ...]


Beyond = Callable[[Vacancy], PlayOn | None]
"""Finds who plays on; None where nobody does."""


class Role:
    """One boundary actor of a fork.

    Args:
        context: the actor's.
        turns: its recorded turns from the fork on.
        past: finds what it was told before.
        beyond: who plays on behind the end of the part.
        note_silence: told where nobody answers who has answered such messages.
        is_servant: whether it was spawned by an actor.
    """

    def __init__(
        self,
        context: ActorContext,
        turns: Sequence[Turn],
        past: Callable[[], list[Heard]],
        beyond: Beyond | None,
        note_silence: Callable[[str, Message], None],
        *,
        is_servant: bool,
    ) -> None:
        self._context = context
        self._past = past
        self._beyond = beyond
        self._note_silence = note_silence
        self._heard: list[Heard] = []
        self._expected: list[Turn] = []
        self._own: deque[Turn] = deque()
        self._due: deque[tuple[Message, Turn]] = deque()
        self._last_heard = (0, 0)
        """When the last message was heard: here, and then."""
        self._play_on: PlayOn | None = None
        self.has_ended = False
        me = context.ref
        self._create = next((turn for turn in turns if isinstance(turn.message, Create)), None)
        self._answered = {type(turn.message) for turn in turns if turn.effects}
        for turn in turns:
            if turn.kind == "signal":
                continue
            is_from_outside = is_servant and turn.sender is None and turn.cause is None
            is_own = turn.kind == "timer" or turn.sender == me or is_from_outside
            (self._own if is_own else self._expected).append(turn)

    def begin(self) -> None:
        """It was spawned in the fork: what it did in its first turn. Called in its turn."""
        if self._create is not None:
            self._play(self._create)

    def cue(self) -> None:
        """Have what is due next come at its time."""
        if self.has_ended or not self._own or self._due:
            return
        following = self._own[0]
        if any(turn.sequence < following.sequence for turn in self._expected):
            return
        now_ms, (here_ms, then_ms) = self._context.system.clock.now_ms(), self._last_heard
        due_ms = max(now_ms, here_ms + following.now_ms - then_ms)
        self._own.popleft()
        message = self._own_message(following)
        self._due.append((message, following))
        cell = self._context._cell
        self._context.system.clock.schedule(due_ms, lambda: cell.mailbox.put(Envelope(message, None, None)))

    def _own_message(self, turn: Turn) -> Message:
        """What it told itself, or was told from outside: whatever it was, what it did then is known."""
        try:
            return living(turn.message, self._context.system.resolve)
        except UnknownTypeError:
            return Unread()

    def handle(self, message: Message) -> None:
        """Play what was recorded for `message`; called in the turn of the actor."""
        if self._due and self._due[0][0] is message:
            _, own = self._due.popleft()
            if not self.has_ended:
                self._play(own)
                self.cue()
            return
        turn = None if self.has_ended else self._recorded(message)
        if turn is None:
            self._leave(message)
            return
        self._expected.remove(turn)
        self._last_heard = (self._context.now(), turn.now_ms)
        self._play(turn)
        self.cue()

    def end(self) -> None:
        """The part is over: from here on somebody else plays, or nobody."""
        if not self.has_ended:
            self._find_successor()
            self.has_ended = True

    def _find_successor(self) -> None:
        """Ask, once, who plays on."""
        if self._beyond is not None:
            beyond, self._beyond = self._beyond, None
            parent = self._context._cell.parent
            arguments = () if parent is None else parent.props.arguments
            self._play_on = beyond(Vacancy(self._context, [*self._past(), *self._heard], arguments))

    def _recorded(self, message: Message) -> Turn | None:
        sender = self._context.sender
        return next((turn for turn in self._expected if turn.sender == sender and turn.message == message), None)

    def _leave(self, message: Message) -> None:
        if not self.has_ended:
            self._find_successor()
            self.has_ended = self._play_on is not None
        if self._play_on is not None:
            self._play_on(message)
        elif self.has_ended or type(message) in self._answered:
            self._note_silence(self._context.path, message)

    def _play(self, turn: Turn) -> None:
        self._heard.append(Heard(turn.message, turn.effects))
        for effect in turn.effects:
            try:
                self._perform(effect)
            except UnknownTypeError:
                self._note_silence(self._context.path, Unread())
        if turn.failure is not None:
            raise error_of(turn.failure)

    def _perform(self, effect: Effect) -> None:
        context, resolve = self._context, self._context.system.resolve
        match effect:
            case Send(target=target, message=message) | Reply(target=target, message=message):
                resolve(target.path, target.incarnation).tell(living(message, resolve))
            case Spawn(ref=ref):
                context.spawn(BOUNDARY, ref.path.rpartition("/")[2])
            case Stop(ref=ref):
                context.stop(resolve(ref.path, ref.incarnation))
            case Watch(ref=ref, message=message):
                context.watch(resolve(ref.path, ref.incarnation), None if message is None else living(message, resolve))
            case Unwatch(ref=ref):
                context.unwatch(resolve(ref.path, ref.incarnation))
            case _:
                return  # Its timers and its blocking work come as its own turns; the rest is between it and itself.
