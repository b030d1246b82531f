"""Envelopes: a message with its sender and its cause. Some envelopes are checked again on delivery.

A timer may be cancelled and a watch withdrawn while their message is already in the mailbox. So these messages have
special envelopes, which are opened in the actor's turn and may have become void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from flykka.messages.wire.message import Message
from flykka.runtime.pykka_seam import PykkaEnvelope

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.futures.promise import PromiseRef
    from flykka.runtime.time.timers import Timer

TellEntry = Message | tuple[Message, "Ref | None", "int | None"]
"""A plain tell: message, sender, cause. A tuple, because creating an `Envelope` would double the cost of a tell.

Outside of turns there is neither sender nor cause, and the entry is the message itself. This creates fewer objects for
the garbage collector, which dominates the cost of a long queue.
"""

TurnKind = Literal["message", "timer", "signal"]


class Envelope(PykkaEnvelope[Message]):
    """A message that was sent or asked. `cause` is the sequence number of the sending turn, if turns are numbered."""

    __slots__ = ("cause", "sender")

    kind: ClassVar[TurnKind] = "message"
    is_user_message: ClassVar[bool] = True
    """True for messages of actors and of code outside them, False for those of the kernel itself."""

    reply_to: PromiseRef | None  # type: ignore[assignment]  # Pykka keeps a future here; ours stands behind a ref.

    def __init__(self, message: Message, sender: Ref | None, cause: int | None, reply_to: PromiseRef | None = None):
        self.message = message
        self.reply_to = reply_to
        self.sender = sender
        self.cause = cause

    @staticmethod
    def wrap(entry: TellEntry | Envelope) -> Envelope:
        if isinstance(entry, Envelope):
            return entry
        return Envelope(*entry) if isinstance(entry, tuple) else Envelope(entry, None, None)

    def open(self, cell: Cell) -> Message | None:
        """Return the message to handle, or None if it has become void. Called in the turn of the recipient."""
        return self.message

    def stashed(self, cell: Cell) -> Envelope:
        """Return the envelope to stash for this opened one, so that it can be opened again."""
        return self


class SignalEnvelope(Envelope):
    """A signal of the kernel, for the control lane."""

    __slots__ = ()

    kind = "signal"
    is_user_message = False


class FailedEnvelope(SignalEnvelope):
    """The signal of a child's failure, with the error itself, because the child's own error may have changed since."""

    __slots__ = ("error",)

    def __init__(self, signal: Message, error: BaseException, sender: Ref | None, cause: int | None) -> None:
        super().__init__(signal, sender, cause)
        self.error = error


class TimerEnvelope(Envelope):
    __slots__ = ("timer",)

    kind = "timer"
    is_user_message = False

    def __init__(self, timer: Timer) -> None:
        super().__init__(timer.message, None, timer.cause)
        self.timer: Timer | None = timer

    def open(self, cell: Cell) -> Message | None:
        return self.message if self.timer is None or cell.timers.accept(self.timer) else None

    def stashed(self, cell: Cell) -> Envelope:
        """Detach the message from its timer, as in Akka, so that a later cancel has no effect."""
        self.timer = None
        return self


class TerminatedEnvelope(Envelope):
    """The notification that a watched actor has ended, queued after all messages that the actor had sent before."""

    __slots__ = ("ref",)

    is_user_message = False

    def __init__(self, message: Message, ref: Ref, cause: int | None) -> None:
        super().__init__(message, ref, cause)
        self.ref = ref

    def open(self, cell: Cell) -> Message | None:
        return cell.death_watch.accept(self.ref)

    def stashed(self, cell: Cell) -> Envelope:
        """Queue the notification once more, as in Akka. An unwatch still makes it void."""
        cell.death_watch.requeue(self.ref, self.message)
        return self


class FaultEnvelope(Envelope):
    __slots__ = ("error",)

    is_user_message = False

    def __init__(self, message: Message, error: BaseException, cause: int | None) -> None:
        super().__init__(message, None, cause)
        self.error = error

    def open(self, cell: Cell) -> Message | None:
        raise self.error
