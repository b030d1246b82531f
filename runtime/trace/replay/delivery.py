"""How a recorded message comes to the actor that handled it: as the message that was told, or out of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.receive_timeout import ReceiveTimeoutEnvelope
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope, SignalEnvelope, TimerEnvelope
from flykka.runtime.signals import BackoffEnded, PipeFailed, ReceiveTimeout
from flykka.runtime.trace.replay.differences import same
from flykka.runtime.trace.replay.living import error_of, living
from flykka.runtime.trace.replay.mailbox import Entry, ReplayMailbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.timers import Timer
    from flykka.runtime.trace.records import Turn
    from flykka.runtime.trace.replay.system import ReplaySystem


def entry_of(
    turn: Turn, cell: Cell, system: ReplaySystem, like: Callable[[object, object], bool] = same
) -> Entry | None:
    """What to put into the hands of `cell`, told by a replayed turn or `like` it; None for a timer that does not run.

    Raises:
        UnknownTypeError: the message comes from outside of all replayed turns, and cannot be read.
    """
    mailbox = cell.mailbox
    assert isinstance(mailbox, ReplayMailbox)
    told = mailbox.take(turn, like)
    if told is not None:
        return told
    if turn.kind == "timer":
        return _timer(turn, cell)
    return _from_the_trace(turn, living(turn.message, system.resolve), system, cell)


def _from_the_trace(turn: Turn, message: Message, system: ReplaySystem, cell: Cell) -> Entry:
    if turn.kind == "signal":
        if isinstance(message, BackoffEnded):
            cell.faults.cancel_backoff()
        return SignalEnvelope(message, _sender(turn, system), turn.cause)
    if isinstance(message, PipeFailed):
        return FaultEnvelope(message, error_of(message.failure), turn.cause)
    sender = _sender(turn, system)
    return Envelope(message, sender, turn.cause, sender if isinstance(sender, PromiseRef) else None)


def _sender(turn: Turn, system: ReplaySystem) -> Ref | None:
    return None if turn.sender is None else system.resolve(turn.sender.path, turn.sender.incarnation)


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
    """Take the alarm of a timer out of the clock, and have one that repeats set its next."""
    alarm = timer.alarm
    call = None if alarm is None else alarm.callback
    if alarm is not None and call is not None:
        alarm.cancel()
        call()
