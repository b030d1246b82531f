"""The port to a recorder of turns; `trace.recorder` is the one that writes files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import Envelope

Effect = tuple[Any, ...]
"""What a turn did, as it is noted in passing: a kind and its operands, as `trace.format` reads them.

Plain tuples, because one is made for every message sent while a recorder is on.
"""


class Recorder(Protocol):
    """Told of everything in the order it happens on each thread; called from all dispatcher threads."""

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

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed: no turn of it has a higher sequence number."""

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""

    def close(self) -> None:
        """The system has ended; everything is on disk when this returns."""
