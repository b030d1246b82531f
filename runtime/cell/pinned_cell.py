"""The cell of an actor with a thread for itself: Pykka's ThreadingActor, from the start of its thread to its stop.

Pykka's loop gets an entry from the inbox and has it received, over and over until `actor_stopped` is set, which is the
cell's termination. The kernel's own parts stand where Pykka has a place for them:

- The inbox waits until the mailbox schedules the cell, and pops what may be handled now. So each turn has the mailbox's
  claim, as on the threads of a pool.
- Receiving an entry is one turn. Nothing escapes from it: Pykka would stop every actor of the process.
- A kill may come from any thread. It completes the termination there, and Pykka's `on_stop` wakes the loop up.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flykka.runtime.cell.cell import Cell
from flykka.runtime.dispatch.dispatcher import run_contained
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.pykka_seam import PykkaEnvelope, PykkaThreadingActor

if TYPE_CHECKING:
    from flykka.runtime.mailbox.envelope import Told
    from flykka.runtime.props import Props
    from flykka.runtime.system import ActorSystem

logger = logging.getLogger("flykka.runtime")


class PinnedCell(Cell, PykkaThreadingActor):
    """Cell for Props whose dispatcher is `pinned`, in a system with threads."""

    __slots__ = ("_entry", "_inbox")

    def __init__(
        self, system: ActorSystem, parent: Cell | None, props: Props, name: str, path: str, incarnation: int
    ) -> None:
        super().__init__(system, parent, props, name, path, incarnation)
        self._entry: Told | Envelope | None = None
        self.actor_inbox = self._inbox = PinnedInbox(self)  # type: ignore[assignment]  # Nothing is put there.

    def schedule(self) -> None:
        """Have the thread take a turn."""
        self._inbox.wake(is_scheduled=True)

    # Called by Pykka, on the cell's thread unless a kill stops it

    def on_start(self) -> None:
        """Name the thread after the actor."""
        threading.current_thread().name = f"flykka-pinned-{self}"

    def on_receive(self, entry: Told | Envelope | None) -> None:
        """Take a turn with an entry of the mailbox; None where the cell has ended."""
        if entry is not None:
            self._entry = entry
            run_contained(self)

    def on_stop(self) -> None:
        """Have the loop see that the cell has ended."""
        self._inbox.wake(is_scheduled=False)

    def _take_turns(self) -> None:
        entry, self._entry = self._entry, None
        assert entry is not None
        if isinstance(entry, SignalEnvelope):
            self._signal_turn(entry)
        elif isinstance(entry, Envelope):
            self._message_turn(entry)
        else:
            self._told_turn(entry)
        self.turns += 1


class PinnedInbox:
    """The mailbox of a pinned cell as Pykka's loop sees it."""

    __slots__ = ("_cell", "_envelope", "_wakes")

    def __init__(self, cell: PinnedCell) -> None:
        self._cell = cell
        # One for all turns. Pykka's loop holds it while it waits for the next one.
        self._envelope: PykkaEnvelope[Told | Envelope | None] = PykkaEnvelope(None)
        self._wakes: SimpleQueue[bool] = SimpleQueue()

    def wake(self, *, is_scheduled: bool) -> None:
        """Have the thread look: the cell is scheduled, or has ended. Callable from any thread."""
        self._wakes.put(is_scheduled)

    def get(self) -> PykkaEnvelope[Told | Envelope | None]:
        """Wait for the entry to handle next. Returns one without a message where the cell has ended."""
        envelope, mailbox = self._envelope, self._cell.mailbox
        envelope.message = None
        while self._wakes.get():
            # The thread holds the mailbox's claim: after an entry, the turn releases it.
            try:
                entry = mailbox.pop()
            except BaseException:
                # As in a run on a pool: the thread outlives a queue that fails.
                logger.critical("the mailbox of %s failed", self._cell, exc_info=True)
                entry = None
            if entry is not None:
                # Pykka carries out messages of its own classes: as these are tuples, a tell wraps them.
                envelope.message = entry
                return envelope
            mailbox.release()
        return envelope

    def empty(self) -> bool:
        """True: the closed mailbox has made dead letters of all that Pykka would look for behind the end."""
        return True
