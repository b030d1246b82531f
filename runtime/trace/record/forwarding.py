"""The base of recorders that observe what is recorded and leave the file to another recorder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flykka.runtime.recording import Recorder

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect


class ForwardingRecorder(Recorder):
    """Forwards all calls to `inner`, if it is not None."""

    def __init__(self, inner: Recorder | None) -> None:
        self._inner = inner

    @property
    def before_turn(self) -> Callable[[Cell], None] | None:
        """The hook of the inner recorder, which may use it to take snapshots."""
        return getattr(self._inner, "before_turn", None)

    def open(self, *, system: str, seed: int) -> None:
        if self._inner is not None:
            self._inner.open(system=system, seed=seed)

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        if self._inner is not None:
            self._inner.turn(sequence, now_ms, recipient, envelope, effects, failure)

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        if self._inner is not None:
            self._inner.spawned(sequence, now_ms, ref, parent, props)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        if self._inner is not None:
            self._inner.killed(sequence, now_ms, ref)

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        if self._inner is not None:
            self._inner.dead_letter(sequence, now_ms, message, sender, recipient, reason)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
