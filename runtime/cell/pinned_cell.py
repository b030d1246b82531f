"""The cell of an actor with its own thread: Pykka's ThreadingActor, from the start of its thread to its stop.

Pykka's loop takes envelopes from the inbox and passes them to `on_receive` until `actor_stopped` is set, which is the
cell's termination. The messages are in the mailbox, not in the inbox: an envelope only means that the mailbox has
scheduled the cell, and receiving the envelope is one run, as on the threads of a pool. A run never raises, because
Pykka would then stop every actor of the process.

A kill may come from any thread. It completes the termination there, and Pykka's `on_stop` wakes the loop.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flykka.runtime.cell.cell import Cell
from flykka.runtime.dispatch.dispatcher import run_contained
from flykka.runtime.pykka_seam import PykkaEnvelope, PykkaThreadingActor

if TYPE_CHECKING:
    from flykka.runtime.props import Props
    from flykka.runtime.system import ActorSystem

_SCHEDULED = PykkaEnvelope(True)
_ENDED = PykkaEnvelope(False)


class PinnedCell(Cell, PykkaThreadingActor):
    __slots__ = ()

    def __init__(
        self, system: ActorSystem, parent: Cell | None, props: Props, name: str, path: str, incarnation: int
    ) -> None:
        super().__init__(system, parent, props, name, path, incarnation)
        self.actor_inbox = SimpleQueue[PykkaEnvelope[bool]]()

    def schedule(self) -> None:
        self.actor_inbox.put(_SCHEDULED)

    # Called by Pykka, on the cell's thread unless a kill stops it

    def on_start(self) -> None:
        threading.current_thread().name = f"flykka-pinned-{self}"

    def on_receive(self, is_scheduled: bool) -> None:
        if is_scheduled:
            run_contained(self)

    def on_stop(self) -> None:
        self.actor_inbox.put(_ENDED)
