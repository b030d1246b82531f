"""Plays back an actor that a fork does not run, as it was recorded, for as long as that fits.

It fits while the actor is told what it was told then. The order is free, for between several senders the fork may come
to another one. What the actor told itself comes when all has been said that was said before it then, and as much later
as it came then. A message that was not recorded is answered by nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.replay.delivery import UnknownTypeError, error_of, living
from flykka.runtime.replay.system import BOUNDARY
from flykka.runtime.signals import Create, Unread
from flykka.runtime.trace.effects import Effect, Reply, Send, Spawn, Stop, Unwatch, Watch

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.context import ActorContext
    from flykka.runtime.trace.records import Turn


class RecordedStandIn:
    """Takes the turns of one boundary actor of a fork.

    Args:
        context: the actor's.
        turns: its recorded turns from the fork on.
        note_silence: told of a message that nobody answers, of a class to which the actor has reacted.
    """

    def __init__(
        self, context: ActorContext, turns: Sequence[Turn], note_silence: Callable[[str, Message], None]
    ) -> None:
        self._context = context
        self._note_silence = note_silence
        self._expected: list[Turn] = []
        self._own: deque[Turn] = deque()
        self._due: deque[tuple[Message, Turn]] = deque()
        self._last_handled = (0, 0)
        """The times at which the last message was handled: here, and in the recording."""
        self._create = next((turn for turn in turns if isinstance(turn.message, Create)), None)
        self._answered = {type(turn.message) for turn in turns if turn.effects}
        for turn in turns:
            if turn.kind != "signal":
                is_own = turn.kind == "timer" or turn.sender == context.ref
                (self._own if is_own else self._expected).append(turn)

    def create(self) -> None:
        """Repeat the first turn of an actor that was spawned in the fork. Called in its turn."""
        if self._create is not None:
            self._play(self._create)

    def schedule_own(self) -> None:
        """Have the next message that the actor told itself come at its time."""
        if not self._own or self._due:
            return
        following = self._own[0]
        if any(turn.sequence < following.sequence for turn in self._expected):
            return
        now_ms, (here_ms, then_ms) = self._context.system.clock.now_ms(), self._last_handled
        due_ms = max(now_ms, here_ms + following.now_ms - then_ms)
        self._own.popleft()
        message = self._own_message(following)
        self._due.append((message, following))
        cell = self._context._cell
        self._context.system.clock.schedule(due_ms, lambda: cell.mailbox.put(Envelope(message, None, None)))

    def _own_message(self, turn: Turn) -> Message:
        """The message to itself; also where it cannot be read, what the actor did then is known."""
        try:
            return living(turn.message, self._context.system.resolve)
        except UnknownTypeError:
            return Unread()

    def repeat_recorded(self, message: Message) -> None:
        """Repeat what was recorded for `message`; called in the turn of the actor."""
        if self._due and self._due[0][0] is message:
            self._play(self._due.popleft()[1])
            self.schedule_own()
            return
        sender = self._context.sender
        turn = next((turn for turn in self._expected if turn.sender == sender and turn.message == message), None)
        if turn is not None:
            self._expected.remove(turn)
            self._last_handled = (self._context.now(), turn.now_ms)
            self._play(turn)
            self.schedule_own()
        elif type(message) in self._answered:
            self._note_silence(self._context.path, message)

    def _play(self, turn: Turn) -> None:
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
