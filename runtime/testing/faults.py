"""Faults at certain messages: "when the second DeclineCheckpoint is about to be handled", not "after 300 ms"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem


class PlannedFault:
    """A fault that is injected once, at its message, on the thread that is about to handle the message."""

    def __init__(
        self,
        system: ActorSystem,
        matches: Callable[[ActorRef, Message], bool],
        act: Callable[[], bool],
        count: int,
    ) -> None:
        """Plan the fault for the `count`-th message that `matches`.

        `act` returns True if the fault had a target; otherwise the fault is tried again before the next such message.
        """
        self._matches = matches
        self._act = act
        self._left = count
        self._is_acting = False
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._remove = system.add_delivery_hook(self._on_delivery)

    @property
    def done(self) -> bool:
        """True if the fault has been injected."""
        return self._done.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the fault; return True if it has been injected."""
        return self._done.wait(timeout)

    def cancel(self) -> None:
        """Cancel the fault."""
        self._remove()

    def _on_delivery(self, recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        if not self._matches(recipient, message):
            return
        with self._lock:
            self._left -= 1
            if self._left > 0 or self._is_acting:
                return
            self._is_acting = True
        # Called without the lock, because other actors handle their messages meanwhile.
        if self._act():
            self._remove()
            self._done.set()
        else:
            self._is_acting = False


class PlannedKill(PlannedFault):
    """A planned kill. `victim` is a path, or a function that returns the ref at that time."""

    def __init__(
        self,
        system: ActorSystem,
        victim: str | Callable[[], Ref | None],
        matches: Callable[[ActorRef, Message], bool],
        count: int,
    ) -> None:
        self._system = system
        self._victim = victim
        # Called last, because a matching message may arrive from here on.
        super().__init__(system, matches, self._kill, count)

    def _kill(self) -> bool:
        victim = self._system.find(self._victim) if isinstance(self._victim, str) else self._victim()
        assert victim is not None, f"the actor {self._victim} that is to be killed now does not exist"
        self._system.kill(victim)
        return True


def kill_when(
    system: ActorSystem,
    victim: str | Callable[[], Ref | None],
    matches: Callable[[ActorRef, Message], bool],
    count: int = 1,
) -> PlannedKill:
    """Kill `victim` right before the `count`-th message that `matches` is handled, by the victim or any other actor."""
    return PlannedKill(system, victim, matches, count)
