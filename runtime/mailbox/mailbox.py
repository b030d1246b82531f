"""The mailbox of a cell: messages in order, kernel signals in a lane ahead of them, and a close that loses nothing.

No lock protects the queues. A deque's `append` and `popleft` are atomic, and so is trying to acquire a lock:
- Scheduling: a thread that appends tries to acquire `_claim`, and on success passes the cell to its dispatcher. The
  thread that runs the cell holds the claim, and checks the queues once more after releasing it. So a cell is never run
  twice at once, and never sleeps while a message waits, even if the appending thread found the claim held.
- Closing: `closed` is set before the queues are drained, and a put checks it after its append. Whatever the
  interleaving, each envelope is popped exactly once: by the run, by the closing thread, or by the late put itself.
  Pykka checks first and puts then, so that an ask in between never gets a reply.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, TellEntry

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.dead_letters import EmptyLocalActorRef
    from flykka.runtime.mailbox.message_queue import MessageQueue


class Mailbox:
    """A queue of messages, a queue of signals that overtake them, and a claim held while the owner is scheduled.

    `messages` is a deque, or the queue of another mailbox type.
    """

    __slots__ = ("_claim", "closed", "control", "messages", "owner")

    def __init__(
        self, owner: Cell | EmptyLocalActorRef, messages: MessageQueue | None = None, *, closed: bool = False
    ) -> None:
        self.owner = owner
        self.messages: MessageQueue = deque() if messages is None else messages
        self.control: deque[SignalEnvelope] = deque()
        self.closed = closed
        self._claim = threading.Lock()

    def put(self, entry: TellEntry | Envelope) -> None:
        self.messages.append(entry)
        if self.closed:
            self._drain()
        elif not self._claim.locked() and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def put_signal(self, envelope: SignalEnvelope) -> None:
        """Queue a signal ahead of all messages. May be called from any thread."""
        self.control.append(envelope)
        if self.closed:
            self._drain()
        elif self._claim.acquire(blocking=False):
            self.owner.schedule()

    def prepend(self, entries: Sequence[TellEntry | Envelope]) -> None:
        """Queue messages ahead of the waiting ones, in a turn of the cell."""
        self.messages.extendleft(reversed(entries))
        if self.closed:
            self._drain()

    def empty(self) -> bool:
        return not self.messages

    def release(self) -> None:
        """Release the claim after a run, and schedule the cell again if entries have arrived meanwhile."""
        self._claim.release()
        has_work = self.control or (self.messages and self.owner.receptive)
        if has_work and not self.closed and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def wake(self) -> None:
        if not self.closed and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def close(self) -> None:
        self.closed = True
        self._drain()

    def _drain(self) -> None:
        owner = self.owner
        while self.control:
            try:
                signal = self.control.popleft()
            except IndexError:
                break  # Another late put has popped the entry.
            owner.reject_signal(signal)
        while self.messages:
            try:
                entry = self.messages.popleft()
            except IndexError:
                break
            owner.reject(Envelope.wrap(entry))
