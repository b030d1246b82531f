"""The receiver's side of credit-based flow control: the number of batches that a channel's sender may send.

A credit is room for one batch. Every channel has `exclusive` credits, which are sent with its request. It shares a pool
of floating credits with the other channels of its gate: a channel whose sender has queued data (its backlog) draws
credits from the pool, up to backlog + exclusive, or waits for its turn. So a gate holds at most channels × exclusive +
floating batches. Sequence numbers, queues and messages are not handled here. Follows Flink's RemoteInputChannel with
its AvailableBufferQueue, whose credits are memory segments.
"""

from __future__ import annotations

from collections import deque

from flykka.actors.machines.exchange.buffer_pool import LocalBufferPool, NotificationResult


class FloatingCredits(LocalBufferPool["ChannelCredits"]):
    """The credits that the channels of one gate share. Channels that need more credits wait in a queue."""

    __slots__ = ()


class ChannelCredits:
    """The credits of one channel. Each credit is either available (announced to the sender, or soon) or in use by a
    batch.
    """

    __slots__ = (
        "_exclusive_available",
        "_floating_available",
        "_in_use_is_floating",
        "_pool",
        "channel",
        "exclusive",
        "is_released",
        "is_waiting",
        "required",
        "unannounced",
    )

    def __init__(self, channel: int, exclusive: int, pool: FloatingCredits) -> None:
        if exclusive < 0:
            raise ValueError(f"exclusive credits cannot be negative: {exclusive}")
        self.channel = channel
        self.exclusive = exclusive
        self.required = exclusive
        self.unannounced = 0
        self.is_waiting = False
        self.is_released = False
        self._pool = pool
        self._exclusive_available = exclusive
        self._floating_available = 0
        self._in_use_is_floating: deque[bool] = deque()

    @property
    def available(self) -> int:
        return self._exclusive_available + self._floating_available

    @property
    def outstanding(self) -> int:
        """The number of credits that the sender knows and has not used, which limits the batches that may arrive."""
        return self.available - self.unannounced

    @property
    def in_use(self) -> int:
        return len(self._in_use_is_floating)

    @property
    def is_announcement_due(self) -> bool:
        """True if at least half of the `exclusive` number is unannounced, or the sender has no credits left.

        The first rule saves messages on channels with many credits. The second keeps the sender from starving.
        """
        return self.unannounced > 0 and (self.outstanding == 0 or 2 * self.unannounced >= self.exclusive)

    def take_announcement(self) -> int:
        announced, self.unannounced = self.unannounced, 0
        return announced

    def spend(self) -> bool:
        """Use a credit for a batch that has arrived, a floating one first. Returns False if there was no credit."""
        if self.is_released or self.outstanding == 0:
            return False
        is_floating = self._floating_available > 0
        if is_floating:
            self._floating_available -= 1
        else:
            self._exclusive_available -= 1
        self._in_use_is_floating.append(is_floating)
        return True

    def on_backlog(self, backlog: int) -> None:
        """Draw floating credits for `backlog` batches that wait at the sender, or wait for more credits."""
        if self.is_released:
            return
        self.required = backlog + self.exclusive
        missing = self.required - self.available
        if missing <= 0 or self.is_waiting:
            return
        drawn = self._pool.take_up_to(missing)
        self._floating_available += drawn
        self.unannounced += drawn
        if drawn < missing:
            self.is_waiting = self._pool.wait(self)

    def give_back(self) -> ChannelCredits | None:
        """Take back the credit of a processed batch. Returns the channel that has a new credit to announce, if any."""
        assert self._in_use_is_floating, f"channel {self.channel}: more batches processed than received"
        if self._in_use_is_floating.popleft():
            return self._pool.give_back()
        if self.is_released:
            return None
        self._exclusive_available += 1
        if self.available > self.required:
            # The channel needs one credit less: the exclusive credit replaces a floating one, which others may need.
            self._floating_available -= 1
            return self._pool.give_back()
        self.unannounced += 1
        return self

    def buffer_available(self) -> NotificationResult:
        """Accept a credit that the pool offers, if the channel still needs it."""
        self.is_waiting = False
        if self.is_released or self.available >= self.required:
            return NotificationResult.BUFFER_NOT_USED
        self._floating_available += 1
        self.unannounced += 1
        self.is_waiting = self.available < self.required
        if self.is_waiting:
            return NotificationResult.BUFFER_USED_NEED_MORE
        return NotificationResult.BUFFER_USED_NO_NEED_FOR_MORE

    def buffer_pool_destroyed(self) -> None:
        self.is_waiting = False

    def release(self) -> list[ChannelCredits]:
        """Return the floating credits to the pool, as no more batches will arrive. Returns channels with a credit to
        announce.

        Credits in use are returned when their batches are processed.
        """
        self.is_released = True
        self._exclusive_available = self.required = self.unannounced = 0
        return self._give_back_floating()

    def check(self) -> None:
        assert 0 <= self.unannounced <= self.available
        assert self._floating_available >= 0
        assert self._exclusive_available >= 0
        own = self._exclusive_available + self._in_use_is_floating.count(False)
        assert own <= self.exclusive if self.is_released else own == self.exclusive

    @property
    def floating(self) -> int:
        return self._floating_available + self._in_use_is_floating.count(True)

    def _give_back_floating(self) -> list[ChannelCredits]:
        floating, self._floating_available = self._floating_available, 0
        takers = (self._pool.give_back() for _ in range(floating))
        return [taker for taker in takers if taker is not None]
