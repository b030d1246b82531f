"""Delivery of recorded messages and errors: as sent by a replayed turn, or created from the trace."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, Value
from flykka.messages.wire.ref import Ref, Resolve
from flykka.messages.wire.tags import class_of
from flykka.runtime import errors
from flykka.runtime.cell.receive_timeout import ReceiveTimeoutEnvelope
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope, SignalEnvelope, TimerEnvelope
from flykka.runtime.replay.mailbox import Entry, ReplayMailbox
from flykka.runtime.signals import BackoffEnded, PipeFailed, ReceiveTimeout
from flykka.runtime.trace.diff.value_comparator import same
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.text import message_tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.timers import Timer
    from flykka.runtime.trace.records import Turn


class UnknownTypeError(Exception):
    """A recorded message cannot be read here."""


def with_live_refs(message: Value | Undecoded, resolve: Resolve) -> Message:
    try:
        if isinstance(message, Undecoded) and not message.data:
            raise UnknownTypeError(
                f"the trace does not contain this message, so it cannot be handled: {message.reason}"
            )
        if isinstance(message, Undecoded) and class_of(message_tag(message)) is None:
            tag = message_tag(message)
            raise UnknownTypeError(
                f"no class is known for messages with the tag {tag!r}: import the module that declares it"
            )
        revived = decode(message.data if isinstance(message, Undecoded) else encode(message), resolve)
    except CodecError as error:
        raise UnknownTypeError(str(error)) from None
    if not isinstance(revived, Message):
        raise UnknownTypeError(f"a {type(revived).__name__} is no message")
    return revived


def error_of(failure: SerializedThrowable) -> BaseException:
    """Return a live error with the recorded name and text, of the kernel's or Python's own class if there is one."""
    if failure.type_name == errors.AskFailedError.__name__:
        type_name, _, text = failure.message.partition(": ")
        cause = SerializedThrowable(type_name=type_name, message=text, stack_trace=failure.stack_trace)
        return errors.AskFailedError(cause)
    for module in (errors, builtins):
        kind = getattr(module, failure.type_name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and _takes_text(kind, failure.message):
            return kind(failure.message)
    # A recorded name need not be a valid class name.
    name = failure.type_name if failure.type_name.isidentifier() else "Failure"
    error: BaseException = type(name, (Exception,), {})(failure.message)
    return error


def _takes_text(kind: type[BaseException], text: str) -> bool:
    try:
        return str(kind(text)) == text
    except Exception:  # noqa: BLE001 - whatever its initialiser makes of a text, it is no such class.
        return False


def entry_of(turn: Turn, cell: Cell, resolve: Resolve, like: Callable[[object, object], bool] = same) -> Entry | None:
    """Return the entry for `cell`, sent by a replayed turn or `like` it. None for a timer that is not running.

    Raises:
        UnknownTypeError: the message comes from outside of all replayed turns, and cannot be read.
    """
    mailbox = cell.mailbox
    assert isinstance(mailbox, ReplayMailbox)
    entry = mailbox.take(turn, like)
    if entry is not None:
        return entry
    if turn.kind == "timer":
        return _timer(turn, cell)
    return _recorded_entry(turn, with_live_refs(turn.message, resolve), resolve, cell)


def _recorded_entry(turn: Turn, message: Message, resolve: Resolve, cell: Cell) -> Entry:
    if turn.kind == "signal":
        if isinstance(message, BackoffEnded):
            cell.faults.cancel_backoff()
        return SignalEnvelope(message, _sender(turn, resolve), turn.cause)
    if isinstance(message, PipeFailed):
        return FaultEnvelope(message, error_of(message.failure), turn.cause)
    sender = _sender(turn, resolve)
    return Envelope(message, sender, turn.cause, sender if isinstance(sender, PromiseRef) else None)


def _sender(turn: Turn, resolve: Resolve) -> Ref | None:
    return None if turn.sender is None else resolve(turn.sender.path, turn.sender.incarnation)


def _timer(turn: Turn, cell: Cell) -> Entry | None:
    if isinstance(turn.message, ReceiveTimeout):
        timeout = cell.receive_timeout
        if timeout is None:
            return None
        timeout.cancel()
        return ReceiveTimeoutEnvelope(timeout, turn.cause)
    for timer in cell.timers.active():
        if timer.cause == turn.cause and timer.message == turn.message:
            _ring(timer)
            return TimerEnvelope(timer)
    return None


def _ring(timer: Timer) -> None:
    alarm = timer.alarm
    call = None if alarm is None else alarm.callback
    if alarm is not None and call is not None:
        alarm.cancel()
        call()
