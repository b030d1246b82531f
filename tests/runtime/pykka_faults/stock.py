"""Plain Pykka actors whose faults the tests demonstrate, and gates that block them.

The faults have numbers, which the names of the tests contain:

    P1      an ask sent while the actor stops is never answered
    P2      a reply set from outside kills the actor's thread
    P3      a SystemExit in a handler stops every actor of the process
    P4      so do asyncio.CancelledError and the outcomes of pytest
    P5      stop_all(timeout=) gives up at the first slow actor
    P6      a tell to a dead actor raises in the sender
    P7      an exception kills the actor after a tell, but not after an ask
    P8      no hook runs if an actor fails or cannot start, and start() returns a ref that looks alive
    P9      while on_stop runs the actor counts as dead
    P10     a second stop() returns while on_stop still runs
    P11     messages queued when an actor stops vanish
    P12     a broadcast ends at the first dead actor
    P13     awaiting a future blocks the event loop
    P14     a future has __iter__ although it is not iterable
    P15     map and filter compute while holding the future's lock
    P16     a failing map runs again at every get()
    P17     a timeout for several futures applies to each of them
    P18     every caller gets the same exception object, with its frames
    P19     futures have no callbacks, no done, no cancel
    P20     an actor that asks itself, directly or not, hangs
    P21     a stop queues after all other messages
    P22     threads of actors keep the interpreter alive
    P23     proxies access the live actor from the caller's thread
    P24     proxies keep the actor in memory
    P25     refs cannot be copied or encoded
    P26     __init__ runs in the creator's thread, without supervision
    P27     context variables are not passed to an actor
    P28     actors die without a report
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pykka
from pykka import ActorRegistry

LONG_ENOUGH = 5.0
"""The seconds that a test waits for an expected event."""


class Gate:
    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def hold(self, _actor: object = None) -> bool:
        """Wait here, in a turn of an actor. Returns whether the gate was opened."""
        self._reached.set()
        return self._open.wait(LONG_ENOUGH)

    def wait_reached(self) -> None:
        """Wait until an actor is blocked."""
        assert self._reached.wait(LONG_ENOUGH)

    def open(self) -> None:
        self._open.set()


Deed = Callable[["Stock"], object]


class Stock(pykka.ThreadingActor):
    """A plain Pykka actor that logs events and performs the scripted action for a word, or for `start`, `stop`,
    `failure`.

    The result of the action is the reply.
    """

    use_daemon_thread = True

    def __init__(self, staged: Staged, script: Mapping[str, Deed]) -> None:
        super().__init__()
        self._staged = staged
        self._part = script
        if "init" in script:
            self._happens("init")

    def on_start(self) -> None:
        self._staged.thread = threading.current_thread()
        self._happens("start")

    def on_stop(self) -> None:
        self._happens("stop")

    def on_failure(self, *_raised: object) -> None:
        self._happens("failure")

    def on_receive(self, message: str) -> object:
        return self._happens(message)

    def _happens(self, what: str) -> object:
        self._staged.log.append(what)
        deed = self._part.get(what)
        return None if deed is None else deed(self)


@dataclass
class Staged:
    log: list[str] = field(default_factory=list)
    thread: threading.Thread | None = None
    _ref: pykka.ActorRef[Stock] | None = None

    @property
    def ref(self) -> pykka.ActorRef[Stock]:
        assert self._ref is not None
        return self._ref

    def start(self, script: Mapping[str, Deed] | None = None, actor: type[Stock] = Stock) -> Staged:
        self._ref = actor.start(self, script or {})
        return self

    def wait_thread_ended(self) -> None:
        while self.thread is None:
            self.ref.actor_stopped.wait(0.001)
        self.thread.join(LONG_ENOUGH)
        assert not self.thread.is_alive()

    def clear_away(self) -> None:
        """Clean up everything that belongs to the actor, whatever its state after the test."""
        if self._ref is None:
            return
        if self._ref.is_alive() and self.thread is not None and self.thread.is_alive():
            self._ref.stop(timeout=LONG_ENOUGH)
        ActorRegistry.unregister(self._ref)


def raises(error: BaseException) -> Callable[[Any], object]:
    def perform(_actor: object) -> object:
        raise error

    return perform
