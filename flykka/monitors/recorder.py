"""A recorder that passes every turn to monitors while the system runs, and forwards it to another recorder."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.monitors.monitor import Monitor, Violation, unwrapped
from flykka.monitors.monitors import Watch
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.record.forwarding import ForwardingRecorder
from flykka.runtime.trace.records import Killed, Record, Turn

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Effect, Recorder


class MonitoringRecorder(ForwardingRecorder):
    """Records a running system and checks it: `violations` lists what the monitors report, in order.

    Monitors see the messages that a turn has received and sent, and kills. They check the messages within the turn,
    which therefore takes longer. Turns on other threads wait meanwhile.
    """

    def __init__(self, inner: Recorder | None, monitors: Iterable[Monitor]) -> None:
        """Create a recorder that checks the run with `monitors`, and forwards everything to `inner`, if any."""
        super().__init__(inner)
        self.violations: list[Violation] = []
        self._watch = Watch(monitors)
        self._lock = threading.Lock()

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)
        wants, message = self._watch.wants, envelope.message
        sends = [
            Send(target=effect[1], message=effect[2])
            for effect in effects
            if effect[0] == "send" and wants(type(unwrapped(effect[2])), is_sent=True)
        ]
        if not sends and failure is None and not wants(type(unwrapped(message)), is_sent=False):
            return
        turn = Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=recipient,
            sender=envelope.sender,
            cause=envelope.cause,
            kind=envelope.kind,
            message=message,
            effects=tuple(sends),
            failure=failure,
        )
        self._show(turn)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """Record that an actor was killed."""
        super().killed(sequence, now_ms, ref)
        self._show(Killed(sequence=sequence, now_ms=now_ms, ref=ref))

    def end(self) -> list[Violation]:
        """Return all violations of a run that ended normally, without an interruption."""
        with self._lock:
            self.violations += self._watch.end()
        return self.violations

    def _show(self, record: Record) -> None:
        with self._lock:
            self.violations += self._watch.observe(record)
