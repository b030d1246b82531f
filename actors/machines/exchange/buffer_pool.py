"""A pool of buffers, which limits the batches that one result partition, or the floating credits of one gate, may hold.

A buffer is room for one batch. The size of a pool may change. A pool takes buffers from a provider as it needs them,
and retains returned buffers for later use; if it holds more buffers than its size, it returns them to the provider at
once. A listener waits for buffers and is offered the returned buffers in turn. Follows Flink's LocalBufferPool, with
listeners in place of waiting threads.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, Protocol, TypeVar

from flykka.actors.errors import BufferPoolDestroyedError


class NotificationResult(Enum):
    """The response of a listener that is offered a buffer (Flink's BufferListener.NotificationResult)."""

    BUFFER_NOT_USED = "not used"
    BUFFER_USED_NO_NEED_FOR_MORE = "used, and it was the last one needed"
    BUFFER_USED_NEED_MORE = "used, and another one is needed"


class BufferListener(Protocol):
    def buffer_available(self) -> NotificationResult:
        """Decide whether to use the offered buffer."""

    def buffer_pool_destroyed(self) -> None: ...


class BufferProvider(Protocol):
    def redistribute_buffers(self) -> None: ...

    def take_buffer(self) -> bool:
        """Take one buffer from the provider. Returns False if no buffer is free."""

    def give_back_buffers(self, count: int) -> None: ...


class GrantedBuffers:
    """The provider of a pool whose whole size was granted in advance by a component that accounts for the buffers."""

    __slots__ = ()

    def redistribute_buffers(self) -> None:
        """Do nothing, because sizes are assigned, not computed."""

    def take_buffer(self) -> bool:
        return True

    def give_back_buffers(self, count: int) -> None: ...


Listener = TypeVar("Listener", bound=BufferListener)


class LocalBufferPool(Generic[Listener]):
    """A pool of `size` buffers, between `minimum` and `maximum` (`None`: as many as the provider has)."""

    __slots__ = (
        "_idle",
        "_listeners",
        "_provider",
        "_size",
        "held",
        "is_destroyed",
        "maximum",
        "minimum",
    )

    def __init__(
        self,
        size: int,
        *,
        minimum: int = 0,
        maximum: int | None = None,
        provider: BufferProvider | None = None,
    ) -> None:
        if minimum < 0 or (maximum is not None and maximum < minimum):
            raise ValueError(f"a pool needs from 0 to its maximum of buffers, not {minimum} to {maximum}")
        if size < minimum:
            raise ValueError(f"a pool needs at least {minimum} buffers, not {size}")
        self.minimum = minimum
        self.maximum = maximum
        self.held = 0
        self.is_destroyed = False
        self._size = size if maximum is None else min(size, maximum)
        self._idle = 0
        self._provider: BufferProvider = provider or GrantedBuffers()
        self._listeners: deque[Listener] = deque()

    @property
    def size(self) -> int:
        self._provider.redistribute_buffers()
        return self._size

    @property
    def last_size(self) -> int:
        return self._size

    @property
    def idle(self) -> int:
        self._provider.redistribute_buffers()
        return self._idle

    @property
    def used(self) -> int:
        return self.held - self._idle

    @property
    def free(self) -> int:
        return max(self.size - self.used, 0)

    @property
    def is_available(self) -> bool:
        self._provider.redistribute_buffers()
        return self._idle > 0 or self.held < self._size

    def request_buffer(self) -> bool:
        self._provider.redistribute_buffers()
        if self.is_destroyed and not self._idle:
            raise BufferPoolDestroyedError("the buffer pool is destroyed, and no buffer can be taken from it")
        return self._take_idle() or self._take_from_provider()

    def take_up_to(self, limit: int) -> int:
        count = 0
        while count < limit and self.request_buffer():
            count += 1
        return count

    def wait(self, listener: Listener) -> bool:
        """Offer `listener` the next returned buffer that no earlier listener needs.

        Returns False if the listener need not wait because a buffer is idle, or would wait forever because the pool is
        destroyed.
        """
        if self.is_destroyed or self._idle:
            return False
        self._listeners.append(listener)
        return True

    def give_back(self) -> Listener | None:
        """Take back a buffer. Returns the listener that now uses it, if any."""
        assert self.used > 0, "a buffer was returned twice"
        self._provider.redistribute_buffers()
        if self.is_destroyed or self.held > self._size:
            self._return_to_provider(1)
            return None
        self._idle += 1
        return self._offer_idle() if self._listeners else None

    def resize(self, size: int) -> list[Listener]:
        """Change the size to `size` buffers. Returns the listeners that got a buffer.

        Idle buffers beyond the size are returned to the provider at once, and buffers in use when their users return
        them.

        Raises:
            BufferPoolDestroyedError: the pool is destroyed.
            ValueError: `size` is below the minimum.
        """
        if self.is_destroyed:
            raise BufferPoolDestroyedError("the buffer pool is destroyed and cannot be resized")
        if size < self.minimum:
            raise ValueError(f"a buffer pool needs at least {self.minimum} buffers, not {size}")
        self._size = size if self.maximum is None else min(size, self.maximum)
        excess = min(self._idle, self.held - self._size)
        if excess > 0:
            self._idle -= excess
            self._return_to_provider(excess)
        listeners: list[Listener] = []
        while self._listeners and self._take_from_provider():
            self._idle += 1
            listener = self._offer_idle()
            if listener is not None:
                listeners.append(listener)
        return listeners

    def destroy(self) -> None:
        """Return idle buffers to the provider now, and used buffers when their users return them. Notifies the
        listeners.
        """
        if self.is_destroyed:
            return
        self.is_destroyed = True
        idle, self._idle = self._idle, 0
        self._return_to_provider(idle)
        while self._listeners:
            self._listeners.popleft().buffer_pool_destroyed()

    def check(self) -> None:
        assert 0 <= self._idle <= self.held
        assert self.is_destroyed or not self._idle or self.held <= self._size, (
            "the pool retains idle buffers beyond its size"
        )

    def _offer_idle(self) -> Listener | None:
        while self._idle and self._listeners:
            listener = self._listeners.popleft()
            # The buffer is taken before it is offered: a listener may return it at once, and then it is offered to
            # the next listener.
            self._idle -= 1
            result = listener.buffer_available()
            if result is NotificationResult.BUFFER_USED_NEED_MORE:
                self._wait_on(listener)
            if result is not NotificationResult.BUFFER_NOT_USED:
                return listener
            self._idle += 1
        return None

    def _take_idle(self) -> bool:
        if not self._idle:
            return False
        self._idle -= 1
        return True

    def _take_from_provider(self) -> bool:
        if self.held >= self._size or not self._provider.take_buffer():
            return False
        self.held += 1
        return True

    def _return_to_provider(self, count: int) -> None:
        self.held -= count
        self._provider.give_back_buffers(count)

    def _wait_on(self, listener: Listener) -> None:
        if self.is_destroyed:
            listener.buffer_pool_destroyed()
        else:
            self._listeners.append(listener)
