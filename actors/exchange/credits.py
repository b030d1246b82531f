"""How many batches the sender of a channel may send: the receiver's side of credit-based flow control.

A credit is room for one batch. Every channel has `exclusive` credits of its own, which travel with its request, and
shares a pool of floating ones with the other channels of its gate: a channel behind which data waits (the sender's
backlog) draws from the pool up to backlog + exclusive, or waits for its turn. So the batches that a gate can be made
to hold are bounded by channels × exclusive + floating, whatever the senders do. Nothing in here knows of sequence
numbers, queues or messages. Follows Flink's RemoteInputChannel with its AvailableBufferQueue, where the credits are
memory segments.
"""

from __future__ import annotations

from collections import deque


class FloatingCredits:
    """The credits that the channels of one gate share (the part of LocalBufferPool that serves an input gate)."""

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError(f"floating credits cannot be negative: {total}")
        self.total = total
        self.free = total
        self._waiting: deque[ChannelCredits] = deque()

    def take(self, wanted: int) -> int:
        """Take up to `wanted` credits; how many there were."""
        taken = min(wanted, self.free)
        self.free -= taken
        return taken

    def wait(self, channel: ChannelCredits) -> None:
        """Give `channel` the next credit that comes back and that nobody before it needs."""
        self._waiting.append(channel)

    def give_back(self) -> ChannelCredits | None:
        """Take back one credit; the channel that got it at once, with a credit more to announce."""
        while self._waiting:
            channel = self._waiting.popleft()
            if channel.accept_floating():
                return channel
        self.free += 1
        assert self.free <= self.total, "a floating credit came back twice"
        return None


class ChannelCredits:
    """The credits of one channel. Each is available (the sender has it, or will be told of it) or in use by a batch."""

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
        """Credits ready for a batch, announced or not."""
        return self._exclusive_available + self._floating_available

    @property
    def outstanding(self) -> int:
        """Credits that the sender knows of and has not used: more batches than these may not arrive."""
        return self.available - self.unannounced

    @property
    def in_use(self) -> int:
        """Batches that have arrived and are not yet processed."""
        return len(self._in_use_is_floating)

    @property
    def is_announcement_due(self) -> bool:
        """Half of the own credits wait to be announced, or the sender has none left.

        The first rule saves messages on channels with many credits; the second keeps the sender from starving.
        """
        return self.unannounced > 0 and (self.outstanding == 0 or 2 * self.unannounced >= self.exclusive)

    def take_announcement(self) -> int:
        """The credits that the sender has not been told of; from now on it has."""
        announced, self.unannounced = self.unannounced, 0
        return announced

    def spend(self) -> bool:
        """A batch has arrived: it uses a floating credit first. False where the sender had none to use."""
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
        """`backlog` batches wait at the sender: draw floating credits for them, or wait for some."""
        if self.is_released:
            return
        self.required = backlog + self.exclusive
        missing = self.required - self.available
        if missing <= 0 or self.is_waiting:
            return
        taken = self._pool.take(missing)
        self._floating_available += taken
        self.unannounced += taken
        if taken < missing:
            self._wait()

    def give_back(self) -> ChannelCredits | None:
        """The oldest batch in use is processed; the channel, this or another, that has a credit more to announce."""
        assert self._in_use_is_floating, f"channel {self.channel}: more batches processed than received"
        if self._in_use_is_floating.popleft():
            return self._pool.give_back()
        if self.is_released:
            return None
        self._exclusive_available += 1
        if self.available > self.required:
            # One more than needed: the own credit takes the place of a floating one, which others may need.
            self._floating_available -= 1
            return self._pool.give_back()
        self.unannounced += 1
        return self

    def accept_floating(self) -> bool:
        """The pool offers a credit that this channel has waited for; False where it is no longer needed."""
        self.is_waiting = False
        if self.is_released or self.available >= self.required:
            return False
        self._floating_available += 1
        self.unannounced += 1
        if self.available < self.required:
            self._wait()
        return True

    def release(self) -> list[ChannelCredits]:
        """Nothing more will arrive: floating credits go back; the channels that have a credit more to announce.

        Credits in use stay so until their batches are processed.
        """
        self.is_released = True
        floating, self._floating_available = self._floating_available, 0
        self._exclusive_available = self.required = self.unannounced = 0
        takers = (self._pool.give_back() for _ in range(floating))
        return [taker for taker in takers if taker is not None]

    def check(self) -> None:
        """Assert that no credit is lost, made or promised twice."""
        assert 0 <= self.unannounced <= self.available
        assert self._floating_available >= 0
        assert self._exclusive_available >= 0
        own = self._exclusive_available + self._in_use_is_floating.count(False)
        assert own <= self.exclusive if self.is_released else own == self.exclusive

    @property
    def floating(self) -> int:
        """Floating credits that this channel holds, available or in use."""
        return self._floating_available + self._in_use_is_floating.count(True)

    def _wait(self) -> None:
        self.is_waiting = True
        self._pool.wait(self)
