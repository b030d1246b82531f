"""The mailbox of a cell: messages in order, kernel signals in a lane of their own, and a close that loses nothing.

No lock is held around the queues. A deque's `append` and `popleft` are atomic, and so is trying to acquire a lock:

- Scheduling: whoever appends tries to take `_claim`. Who gets it hands the cell to its dispatcher; whoever runs the
  cell holds the claim, and looks at the queues once more after giving it back. So a cell is never run twice at once,
  and never sleeps on a waiting message, even if the one who appended saw the claim taken and went away.
- Closing: `closed` is set before the queues are drained, and a put looks at it after its append. Whatever the
  interleaving, each envelope is popped exactly once: by the run, by the closer, or by the late putter itself. Pykka
  asks first and puts then, so that an ask in between is never answered.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope, Told

if TYPE_CHECKING:
    from flykka.runtime.futures.future import Termination
    from flykka.runtime.mailbox.message_queue import MessageQueue


class MailboxOwner(Protocol):
    """What a mailbox needs to know of the actor behind it."""

    termination: Termination

    @property
    def receptive(self) -> bool:
        """Whether messages may be handled now; signals always may."""

    def schedule(self) -> None:
        """Have the dispatcher run the cell; the caller holds the claim."""

    def reject(self, envelope: Envelope) -> None:
        """Take back a message that came too late."""

    def reject_signal(self, envelope: Envelope) -> None:
        """Take back a signal that came too late."""


class Mailbox:
    """Two lanes and a claim. Pykka's `ActorInbox`, as far as Pykka itself touches it.

    `messages` is the lane of the messages: a deque, or the queue of another kind of mailbox.
    """

    __slots__ = ("_claim", "closed", "control", "messages", "owner")

    def __init__(self, owner: MailboxOwner, messages: MessageQueue | None = None, *, closed: bool = False) -> None:
        self.owner = owner
        self.messages: MessageQueue = deque() if messages is None else messages
        self.control: deque[SignalEnvelope] = deque()
        self.closed = closed
        self._claim = threading.Lock()

    def put(self, entry: Told | Envelope) -> None:
        """Queue a message, from any thread; a closed mailbox hands it back to its owner."""
        self.messages.append(entry)
        if self.closed:
            self._drain()
        elif not self._claim.locked() and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def put_signal(self, envelope: SignalEnvelope) -> None:
        """Queue a signal ahead of all messages, from any thread."""
        self.control.append(envelope)
        if self.closed:
            self._drain()
        elif self._claim.acquire(blocking=False):
            self.owner.schedule()

    def prepend(self, entries: Sequence[Told | Envelope]) -> None:
        """Queue messages ahead of those that wait, in a turn of the cell; a closed mailbox hands them back."""
        self.messages.extendleft(reversed(entries))
        if self.closed:
            self._drain()

    def get(self) -> Envelope:
        """The next message. Raises `IndexError` where there is none; never blocks."""
        return Envelope.of(self.messages.popleft())

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self.messages

    def release(self) -> None:
        """Give the claim back after a run, and schedule again what came in meanwhile."""
        self._claim.release()
        has_work = self.control or (self.messages and self.owner.receptive)
        if has_work and not self.closed and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def wake(self) -> None:
        """Have the cell look again, which has become receptive outside a run."""
        if not self.closed and self._claim.acquire(blocking=False):
            self.owner.schedule()

    def close(self) -> None:
        """Refuse everything from now on, and hand back what still waits."""
        self.closed = True
        self._drain()

    def _drain(self) -> None:
        owner = self.owner
        while self.control:
            try:
                signal = self.control.popleft()
            except IndexError:
                break  # Another late putter was faster.
            owner.reject_signal(signal)
        while self.messages:
            try:
                entry = self.messages.popleft()
            except IndexError:
                break
            owner.reject(Envelope.of(entry))
