"""Interceptors of a turn, where there are any: the leader session, delivery hooks, the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.recording import effects_told

if TYPE_CHECKING:
    from flykka.messages.control.leader import LeaderSessionMessage
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Recorder


def within_session(cell: Cell, message: LeaderSessionMessage, envelope: Envelope) -> Message | None:
    """Unwrap the message of a leader session; a dead letter and None where the cell does not accept the session."""
    refusal = cell.sessions.refusal(message)
    if refusal is None:
        return message.message
    cell.system.dead_letters.reject(envelope, cell.ref, refusal)
    return None


def passes_hooks(cell: Cell, message: Message, envelope: Envelope) -> bool:
    """Call the delivery hooks; False where one of them killed the cell."""
    cell.system.call_hooks(cell.ref, message, envelope.sender)
    if cell.end_reason is None:
        return True
    cell.reject(envelope)
    return False


def begin_record(cell: Cell) -> None:
    """Number the turn that begins, and collect its effects from here on."""
    cell.sequence = cell.system.next_sequence()
    if cell.system.before_turn is not None:
        cell.system.before_turn(cell)
    cell.now()
    cell.effects = []


def end_record(cell: Cell, recorder: Recorder, envelope: Envelope, failure: SerializedThrowable | None) -> None:
    """Record the turn that has ended."""
    effects, cell.effects = cell.effects, None
    assert cell.sequence is not None
    recorder.turn(cell.sequence, cell.now(), cell.ref, envelope, effects_told(cell, effects), failure)
