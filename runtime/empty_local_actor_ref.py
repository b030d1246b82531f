"""Stands behind a ref to an actor that is no more, or never was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.future import Termination
from flykka.runtime.mailbox import Mailbox
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import DeathWatchNotification, Watch

if TYPE_CHECKING:
    from flykka.runtime.envelope import Envelope
    from flykka.runtime.system import ActorSystem


class EmptyLocalActorRef:
    """Turns messages into dead letters and answers watchers at once (Akka's EmptyLocalActorRef)."""

    __slots__ = ("_system", "ref", "termination")

    def __init__(self, system: ActorSystem, path: str, incarnation: int) -> None:
        self._system = system
        self.termination = Termination()
        self.termination.set()
        self.ref = ActorRef(system, path, incarnation, Mailbox(self, closed=True))

    @property
    def receptive(self) -> bool:
        """Never."""
        return False

    def schedule(self) -> None:
        """Never called: a closed mailbox schedules nothing."""

    def reject(self, envelope: Envelope) -> None:
        """A dead letter, and a failed ask."""
        self._system.dead_letters.reject(envelope, self.ref, "there is no such actor")

    def reject_signal(self, envelope: Envelope) -> None:
        """Tell a watcher what it wants to know."""
        if isinstance(envelope.message, Watch):
            watcher = self._system.living(envelope.message.watcher)
            watcher.signal(DeathWatchNotification(ref=self.ref))
