"""A digest of everything that happened in a run: two runs are the same where it is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from flykka.messages.wire.codec import encode
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.record.forwarding import ForwardingRecorder

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect, Recorder


class DigestRecorder(ForwardingRecorder):
    """Takes the digest of all records, with every message as it travels, and hands them on to another recorder."""

    def __init__(self, inner: Recorder | None = None) -> None:
        super().__init__(inner)
        self._digest = hashlib.blake2s()

    def text(self) -> str:
        return self._digest.hexdigest()

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        cause = envelope.cause
        self._note("turn", sequence, now_ms, recipient, envelope.sender, cause, envelope.message, failure)
        for effect in effects:
            self._note(*effect)
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        self._note("spawned", sequence, now_ms, ref, parent)
        super().spawned(sequence, now_ms, ref, parent, props)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        self._note("killed", sequence, now_ms, ref)
        super().killed(sequence, now_ms, ref)

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        self._note("dead letter", sequence, now_ms, message, sender, recipient, reason)
        super().dead_letter(sequence, now_ms, message, sender, recipient, reason)

    def _note(self, *parts: object) -> None:
        for part in parts:
            match part:
                case Ref(path=path, incarnation=incarnation):
                    data = f"{path}#{incarnation}".encode()
                case Value():
                    data = encode(part)
                case None | str() | int():
                    data = repr(part).encode()
                case _:
                    # What is no value is told by its class: it may be live, and then its text is its address.
                    data = type(part).__name__.encode()
            self._digest.update(len(data).to_bytes(4) + data)
