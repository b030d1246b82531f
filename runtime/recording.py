"""The port to a recorder of turns. `trace.record.recorder` has the recorder that writes files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.errors import AskFailedError
from flykka.runtime.events import EndReason
from flykka.runtime.secrets import masked

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.props import Props

# A constant, because the member is read in every turn and looking up an Enum member is slow.
_KILLED = EndReason.KILLED

Effect = tuple[Any, ...]
"""A recorded effect of a turn: a type and its operands, as in `trace.effects`.

A plain tuple, because one is created for every message sent while a recorder is on.
"""


class Recorder:
    """The recorder of a system, called in the order of events on each thread, from all dispatcher threads.

    This base class records nothing. If `before_turn(cell)` is not None, it is called at the start of each turn.
    """

    def open(self, *, system: str, seed: int) -> None:
        """Open the record of a system."""

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        """Record a turn of an actor."""

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """Record an actor that was spawned from outside any turn and has not started yet."""

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """Record a kill: no turn of the actor has a higher sequence number."""

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """Record a dead letter."""

    def close(self) -> None:
        """Close the record of a system that has ended. Everything is on disk when this returns."""


def begin_record(cell: Cell) -> None:
    cell.sequence = cell.system.next_sequence()
    if cell.system.before_turn is not None:
        cell.system.before_turn(cell)
    cell.now()
    cell.effects = []


def end_record(cell: Cell, recorder: Recorder, envelope: Envelope, failure: SerializedThrowable | None) -> None:
    effects, cell.effects = cell.effects, None
    assert cell.sequence is not None
    recorder.turn(cell.sequence, cell.now(), cell.ref, envelope, completed_effects(cell, effects), failure)


def completed_effects(cell: Cell, effects: list[Effect] | None) -> list[Effect]:
    """Return the effects of a turn for the recorder. The last effect marks a turn that a kill has interrupted."""
    completed = effects or []
    if cell.end_reason is _KILLED:
        completed.append(("cut_short",))
    return completed


def record_outcome(cell: Cell | None, value: object, error: BaseException | None, promise: Ref | None = None) -> None:
    """Record an outcome that the turn of `cell` awaited: an input from outside, like a message.

    `promise` is the ref of the pending ask, if the turn awaited an ask.
    """
    if cell is not None and cell.effects is not None and cell.end_reason is None:
        cell.effects.append(("awaited", cell.now(), value, None if error is None else _failure(error), promise))


def cancelled_wait(cell: Cell) -> Effect:
    return ("awaited", cell.now(), None, _failure(asyncio.CancelledError()), None)


def _failure(error: BaseException) -> SerializedThrowable:
    """Return an error as text. The stack of the waiting turn is left out; the stack of a failed asked actor is
    included.
    """
    reply_failure = error.failure if isinstance(error, AskFailedError) else None
    return SerializedThrowable(
        type_name=type(error).__name__,
        message=masked(str(error)),
        stack_trace="" if reply_failure is None else reply_failure.stack_trace,
        suppress_restarts=reply_failure is not None and reply_failure.suppress_restarts,
    )
