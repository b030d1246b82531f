"""The port to a recorder of turns; `trace.recorder` is the one that writes files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.errors import AskFailedError
from flykka.runtime.events import EndReason

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell import Cell
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.props import Props

Effect = tuple[Any, ...]
"""What a turn did, as it is noted in passing: a kind and its operands, as `trace.effects` has them.

Plain tuples, because one is made for every message sent while a recorder is on.
"""


class Recorder:
    """Told of everything in the order it happens on each thread, from all dispatcher threads. This one keeps nothing.

    One with a `before_turn(cell)` that is not None is called with it in each turn too, before anything is done there.
    """

    def open(self, *, system: str, seed: int) -> None:
        """The system begins."""

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        """An actor has taken a turn."""

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """An actor was spawned from outside any turn; it has not begun yet."""

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed: no turn of it has a higher sequence number."""

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""

    def close(self) -> None:
        """The system has ended; everything is on disk when this returns."""


def effects_told(cell: Cell, effects: list[Effect] | None) -> list[Effect]:
    """The effects of a turn that has ended, as a recorder is told them: they say whether a kill has cut them short."""
    told = effects or []
    if cell.end_reason is EndReason.KILLED:
        told.append(("cut_short",))
    return told


def note_outcome(cell: Cell | None, value: object, error: BaseException | None, promise: Ref | None = None) -> None:
    """What the turn of `cell` has waited for is there: for the turn it is news from outside, as a message is.

    `promise` is the ref that has waited for it where it was asked.
    """
    if cell is not None and cell.effects is not None and cell.end_reason is None:
        cell.effects.append(("awaited", cell.now(), value, None if error is None else _failure(error), promise))


def cancelled_wait(cell: Cell) -> Effect:
    """The effect of a wait that a signal has ended."""
    return ("awaited", cell.now(), None, _failure(asyncio.CancelledError()), None)


def _failure(error: BaseException) -> SerializedThrowable:
    """As text, without the stack of the waiting turn; the stack of the asked one where that has failed."""
    asked = error.failure if isinstance(error, AskFailedError) else None
    return SerializedThrowable(
        type_name=type(error).__name__,
        message=str(error),
        stack_trace="" if asked is None else asked.stack_trace,
        suppress_restarts=asked is not None and asked.suppress_restarts,
    )
