"""All private names of Pykka that the kernel uses or replaces. No other file uses any of them.

A contract test compares these names with the installed version of Pykka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pykka
from pykka import ActorRegistry
from pykka._envelope import Envelope as PykkaEnvelope

from flykka.runtime.futures.future import Future
from flykka.runtime.signals import Create

if TYPE_CHECKING:
    from flykka.runtime.futures.future import Termination
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.ref import ActorRef

__all__ = ["PykkaActor", "PykkaEnvelope", "PykkaRef", "PykkaThreadingActor", "register", "sweep", "unregister"]


class PykkaActor(pykka.Actor):
    """Pykka's actor with the ref, the mailbox and the end of a cell. A dispatcher runs it, not a loop of Pykka."""

    __slots__ = ()

    ref: ActorRef

    def become_pykka_actor(self, ref: ActorRef, mailbox: Mailbox, termination: Termination) -> None:
        """Replace Pykka's initialiser, which would create a random urn, a queue, an Event and a ref."""
        self.actor_urn = ref.actor_urn
        self.actor_inbox = mailbox  # type: ignore[assignment]  # Gets are for a loop of Pykka's.
        self.actor_stopped = termination  # type: ignore[assignment]  # Answers as an Event does.
        self._actor_ref = ref

    def launch(self) -> None:
        """Create the instance in a first turn. Raises if the actor needs a thread and none can be started."""
        self._start_actor_loop()

    def conclude(self) -> None:
        self._stop()

    # Called by Pykka

    @staticmethod
    def _create_actor_inbox() -> NoReturn:
        raise TypeError("a cell creates its mailbox itself")

    @staticmethod
    def _create_future() -> Future[object]:
        return Future()

    def _start_actor_loop(self) -> None:
        self.ref.signal(Create())

    def _stop(self) -> None:
        # Like Pykka's own method, which searches the whole registry.
        unregister(self.ref)
        self.actor_stopped.set()


class PykkaThreadingActor(PykkaActor, pykka.ThreadingActor):
    """Pykka's actor on its own thread: Pykka starts the thread, runs its loop there, and stops it."""

    __slots__ = ()

    use_daemon_thread = True

    def _start_actor_loop(self) -> None:
        super()._start_actor_loop()
        pykka.ThreadingActor._start_actor_loop(self)

    def _stop(self) -> None:
        # Few actors have threads, so the search in the registry is short.
        pykka.ThreadingActor._stop(self)


class PykkaRef(pykka.ActorRef[Any]):
    """Pykka's ref without the method through which a proxy accesses the actor."""

    __slots__ = ()

    def _actor_weakref(self) -> Any:  # type: ignore[override]
        # pykka.ActorProxy(actor_ref=ref) calls this.
        return self.proxy()


# The registry of actors without its quadratic cost: `ActorRegistry.unregister` compares refs one by one in a list,
# twice. Here refs are removed by identity and, while many actors are alive, many in one pass; until then the list
# contains some refs that are no longer alive.

_AT_ONCE = 512
"""The number of registered actors up to which an ended actor is removed at once."""

_ended: dict[int, ActorRef] = {}


def register(ref: ActorRef) -> None:
    if not ref.is_in_registry:
        return
    with ActorRegistry._actor_refs_lock:
        ActorRegistry._actor_refs.append(ref)


def unregister(ref: ActorRef) -> None:
    if not ref.is_in_registry:
        return
    with ActorRegistry._actor_refs_lock:
        _ended[id(ref)] = ref
        registered = len(ActorRegistry._actor_refs)
        if registered <= _AT_ONCE or len(_ended) * 8 >= registered:
            sweep()


def sweep() -> None:
    with ActorRegistry._actor_refs_lock:
        if _ended:
            ActorRegistry._actor_refs[:] = [ref for ref in ActorRegistry._actor_refs if id(ref) not in _ended]
            _ended.clear()
