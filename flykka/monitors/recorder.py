"""A recorder that shows every turn to monitors while the system runs, and hands it on to another recorder."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.messages.leader import LeaderSessionMessage
from flykka.monitors.monitor import Monitor, Violation
from flykka.monitors.monitors import Watch
from flykka.runtime.trace.records import Killed, Record, Send, Turn

if TYPE_CHECKING:
    from flykka.messages.failure import SerializedThrowable
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.props import Props
    from flykka.runtime.recording import Effect, Recorder


class MonitoringRecorder:
    """Give it to a system as its recorder; what is wrong is in `violations`, the first first.

    Monitors see the messages that a turn has received and sent, and kills. The messages are those of the running
    system, and looked at within the turn: a turn takes longer by that, and turns on other threads wait for it.
    """

    def __init__(self, inner: Recorder | None, monitors: Iterable[Monitor]) -> None:
        """`inner` is told everything that this recorder is told; None where nothing is to be written."""
        self.violations: list[Violation] = []
        self._inner = inner
        self._watch = Watch(monitors)
        self._lock = threading.Lock()

    def open(self, *, system: str, seed: int) -> None:
        """The system begins."""
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
        """An actor has taken a turn."""
        if self._inner is not None:
            self._inner.turn(sequence, now_ms, recipient, envelope, effects, failure)
        sends = tuple(
            Send(target=effect[1], message=effect[2])
            for effect in effects
            if effect[0] == "send" and self._watch.wants(_kind(effect[2]), is_sent=True)
        )
        message = envelope.message
        if not sends and failure is None and not self._watch.wants(_kind(message), is_sent=False):
            return
        turn = Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=recipient,
            sender=envelope.sender,
            cause=envelope.cause,
            kind=envelope.kind,
            message=message,
            effects=sends,
            failure=failure,
        )
        self._show(turn)

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        """An actor was spawned from outside any turn."""
        if self._inner is not None:
            self._inner.spawned(sequence, now_ms, ref, parent, props)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        """An actor was killed."""
        if self._inner is not None:
            self._inner.killed(sequence, now_ms, ref)
        self._show(Killed(sequence=sequence, now_ms=now_ms, ref=ref))

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        """A message found no one to handle it."""
        if self._inner is not None:
            self._inner.dead_letter(sequence, now_ms, message, sender, recipient, reason)

    def close(self) -> None:
        """The system has ended."""
        if self._inner is not None:
            self._inner.close()

    def end(self) -> list[Violation]:
        """The run has ended by itself, and not because it was cut off: all violations."""
        with self._lock:
            self.violations += self._watch.end()
        return self.violations

    def _show(self, record: Record) -> None:
        with self._lock:
            self.violations += self._watch.observe(record)


def _kind(message: Message) -> type:
    return type(message.message) if isinstance(message, LeaderSessionMessage) else type(message)
