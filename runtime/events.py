"""Events that the kernel publishes on the event stream."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


class EndReason(StrEnum):
    STOPPED = "STOPPED"
    KILLED = "KILLED"


@message("kernel.dead_letter")
class DeadLetter(Message):
    """kernel -> event stream: no actor handles `message`."""

    message: Message
    sender: Ref | None
    recipient: Ref
    reason: str


@message("kernel.mailbox_overflowed")
class MailboxOverflowed(Message):
    """kernel -> event stream: `ref` got more messages than its mailbox holds, and its Props treat that as a failure."""

    ref: Ref
    capacity: int


@message("kernel.unhandled_message")
class UnhandledMessage(Message):
    """kernel -> event stream: the recipient has no handler for `message`."""

    message: Message
    sender: Ref | None
    recipient: Ref


@message("kernel.actor_terminated")
class ActorTerminated(Message):
    """kernel -> event stream: an actor ended. Published for every actor."""

    ref: Ref
    reason: EndReason


@message("kernel.actor_failed")
class ActorFailed(Message):
    """kernel -> event stream: an actor raised, and its supervisor decides."""

    ref: Ref
    failure: SerializedThrowable
