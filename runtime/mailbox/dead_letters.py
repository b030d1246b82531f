"""Dead letters: messages that no actor handles. They go to the event stream, the trace, and a rate-limited log."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from flykka.runtime.events import DeadLetter
from flykka.runtime.futures.future import Termination
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import DeathWatchNotification, Watch

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")

_LOGGED_PER_WINDOW = 10
_WINDOW_MS = 10_000


class DeadLetters:
    """Publishes every dead letter. Logs up to ten dead letters in ten seconds and counts the others."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._window_start = 0
        self._in_window = 0

    def reject(self, envelope: Envelope, recipient: Ref, reason: str) -> None:
        """Publish the message of an envelope as a dead letter, and fail its ask."""
        if envelope.is_user_message:  # A message of a timer or of the kernel itself is not a dead letter.
            self.publish(envelope.message, envelope.sender, recipient, reason)
        if envelope.reply_to is not None:
            envelope.reply_to.refuse(reason)

    def overflowed(self, envelope: Envelope, recipient: Ref, reason: str) -> None:
        self.publish(envelope.message, envelope.sender, recipient, reason)
        if envelope.reply_to is not None:
            envelope.reply_to.overflow(reason)

    def publish(self, message: Message, sender: Ref | None, recipient: Ref, reason: str) -> None:
        system = self._system
        if system.recorder is not None:
            now_ms = system.clock.now_ms()
            system.recorder.dead_letter(system.next_sequence(), now_ms, message, sender, recipient, reason)
        self._log(message, sender, recipient, reason)
        if isinstance(message, DeadLetter):
            return  # Publishing the loss of such an event would cause the next one, without end.
        letter = DeadLetter(message=message, sender=sender, recipient=recipient, reason=reason)
        system.event_stream.publish(letter)

    def _log(self, message: Message, sender: Ref | None, recipient: Ref, reason: str) -> None:
        now_ms = self._system.clock.now_ms()
        with self._lock:
            if now_ms - self._window_start >= _WINDOW_MS:
                suppressed = self._in_window - _LOGGED_PER_WINDOW
                self._window_start, self._in_window = now_ms, 0
                if suppressed > 0:
                    logger.info("%d more dead letters were not logged", suppressed)
            self._in_window += 1
            if self._in_window > _LOGGED_PER_WINDOW:
                return
        logger.info("dead letter %s -> %s: %s (%s)", sender, recipient, type(message).__name__, reason)


class EmptyLocalActorRef:
    """The target of messages to an actor that has ended or never existed (Akka's EmptyLocalActorRef).

    Messages become dead letters, and watchers are notified at once.
    """

    __slots__ = ("_system", "ref", "termination")

    def __init__(self, system: ActorSystem, path: str, incarnation: int) -> None:
        self._system = system
        self.termination = Termination()
        self.termination.set()
        self.ref = ActorRef(system, path, incarnation, Mailbox(self, closed=True))

    @property
    def receptive(self) -> bool:
        return False

    def schedule(self) -> None: ...

    def reject(self, envelope: Envelope) -> None:
        self._system.dead_letters.reject(envelope, self.ref, "there is no such actor")

    def reject_signal(self, envelope: Envelope) -> None:
        if isinstance(envelope.message, Watch):
            watcher = self._system.living(envelope.message.watcher)
            watcher.signal(DeathWatchNotification(ref=self.ref))
