"""The recorder of a fork: makes records of its turns at once, for those who want to see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flykka.runtime.trace.effects import effect_of
from flykka.runtime.trace.record.forwarding import ForwardingRecorder
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Effect, Recorder


class ForkRecorder(ForwardingRecorder):
    """Tells the fork of its turns and the `observer` of all records, looks for the last, and hands on to `recorder`."""

    def __init__(
        self,
        taken: Callable[[Turn], object],
        until: Callable[[Record], bool] | None,
        observer: Callable[[Record], object] | None,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(recorder)
        self.turns = 0
        self.is_over = False
        self._taken = taken
        self._until = until
        self._observer = observer

    def open(self, *, system: str, seed: int) -> None:
        """Do nothing: the recording has begun already."""

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
        self.turns += 1
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)
        turn = Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=recipient,
            sender=envelope.sender,
            cause=envelope.cause,
            kind=envelope.kind,
            message=envelope.message,
            effects=tuple(map(effect_of, effects)),
            failure=failure,
        )
        self._taken(turn)
        self._see(turn)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed."""
        super().killed(sequence, now_ms, ref)
        self._see(Killed(sequence=sequence, now_ms=now_ms, ref=ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""
        super().dead_letter(sequence, now_ms, message, sender, recipient, reason)
        self._see(
            DeadLetterRecord(
                sequence=sequence, now_ms=now_ms, message=message, sender=sender, recipient=recipient, reason=reason
            )
        )

    def close(self) -> None:
        """The recorder is left open: its owner closes it."""

    def _see(self, record: Record) -> None:
        if self._observer is not None:
            self._observer(record)
        if self._until is not None and self._until(record):
            self.is_over = True
