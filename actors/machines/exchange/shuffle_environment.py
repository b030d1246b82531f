"""The network buffers of one TaskManager: decides whether a task fits, and assigns buffers to its inputs and outputs.

A task needs at least one buffer for each subpartition, one more for each output, and the exclusive buffers of its
channels. It gets floating buffers if any remain. Follows Flink's NettyShuffleEnvironment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flykka.actors.errors import BufferPoolDestroyedError, NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.buffer_pool import BufferListener, LocalBufferPool
from flykka.messages.tasks.exchange import TaskBuffers
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.tags import trace_tag


class NetworkBufferPool:
    """All network buffers of one TaskManager, divided among the pools of its tasks.

    Every pool is guaranteed its minimum. The remaining buffers are distributed over the pools in proportion to what
    each pool could use beyond its minimum, again whenever a pool is created or destroyed. Sizes are computed on demand,
    so that thousands of pools may be created and destroyed. Bytes are counted at the tasks, which hold the batches.
    Follows Flink's NetworkBufferPool.
    """

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError(f"the number of network buffers cannot be negative: {total}")
        self.total = total
        self.promised = 0
        self.is_destroyed = False
        self.is_settled = True
        self._free = total
        self._owed_exclusive = 0
        # An ordered set: if shares do not divide evenly, older pools are served first.
        self._pools: dict[LocalBufferPool[BufferListener], None] = {}
        self._resized: dict[LocalBufferPool[BufferListener], None] = {}
        # The number of buffers that all pools could use beyond their minimum. A pool without a maximum could use
        # every buffer.
        self._usable = 0

    @property
    def free(self) -> int:
        self.redistribute_buffers()
        return self._free

    @property
    def pools(self) -> tuple[LocalBufferPool[BufferListener], ...]:
        return tuple(self._pools)

    def create_pool(self, minimum: int, maximum: int | None = None) -> LocalBufferPool[BufferListener]:
        """Create a pool that is guaranteed `minimum` buffers and may have up to `maximum` (`None`: any number).

        Raises:
            NetworkBuffersExhaustedError: fewer than `minimum` buffers are available, as the others are promised.
            BufferPoolDestroyedError: the buffers are destroyed.
        """
        self._promise(minimum)
        pool = LocalBufferPool[BufferListener](minimum, minimum=minimum, maximum=maximum, provider=self)
        self._pools[pool] = None
        self._usable += self._beyond_minimum(pool)
        if self.is_settled and self._is_abundant and maximum is not None:
            pool.resize(maximum)
        else:
            self.is_settled = False
        return pool

    def destroy_pool(self, pool: LocalBufferPool[BufferListener]) -> None:
        if self._pools.pop(pool, self) is self:
            return
        self._resized.pop(pool, None)
        # If every pool had its maximum, returned buffers change no share.
        self.is_settled = self.is_settled and self._is_abundant
        self.promised -= pool.minimum
        self._usable -= self._beyond_minimum(pool)
        pool.destroy()

    def take_exclusive(self, count: int) -> int:
        """Reserve `count` buffers. Returns how many of them are free now; the others follow as they are returned.

        Raises:
            NetworkBuffersExhaustedError: fewer than `count` buffers are available, as the others are promised.
            BufferPoolDestroyedError: the buffers are destroyed.
        """
        if count < 1:
            raise ValueError(f"the number of exclusive buffers must be at least 1, not {count}")
        self._promise(count)
        self.is_settled = self.is_settled and self._is_abundant
        now_free = min(count, self.free)
        self._free -= now_free
        self._owed_exclusive += count - now_free
        return now_free

    def give_back_exclusive(self, count: int) -> None:
        self.is_settled = self.is_settled and self._is_abundant
        self.promised -= count
        self.give_back_buffers(count)

    def destroy(self) -> None:
        self.is_destroyed = True
        self._free = 0

    def take_resized(self) -> tuple[LocalBufferPool[BufferListener], ...]:
        self.redistribute_buffers()
        resized, self._resized = tuple(self._resized), {}
        return resized

    def take_buffer(self) -> bool:
        if self.is_destroyed:
            raise BufferPoolDestroyedError("the network buffers are destroyed and cannot be taken")
        if not self._free:
            return False
        self._free -= 1
        return True

    def give_back_buffers(self, count: int) -> None:
        """Take buffers back. Promised exclusive buffers are served first."""
        if self.is_destroyed:
            return
        owed = min(count, self._owed_exclusive)
        self._owed_exclusive -= owed
        self._free += count - owed
        assert self._free <= self.total, "a network buffer was returned twice"

    def redistribute_buffers(self) -> None:
        if self.is_settled:
            return
        self.is_settled = True
        spare = self.total - self.promised
        rooms = [(pool, _room(pool, spare)) for pool in self._pools]
        capacity = sum(room for _, room in rooms)
        shared = min(spare, capacity)
        so_far = assigned = 0
        for pool, room in rooms:
            so_far += room
            share = shared * so_far // capacity - assigned if capacity else 0
            assigned += share
            self._resize(pool, pool.minimum + share)

    def check(self) -> None:
        self.redistribute_buffers()
        assert 0 <= self._free <= self.total
        assert self.promised <= self.total
        assert sum(pool.size for pool in self._pools) <= self.total
        for pool in self._pools:
            pool.check()

    @property
    def _is_abundant(self) -> bool:
        """True if every pool can have its maximum, so that no share has to be computed."""
        return self.promised + self._usable <= self.total

    def _beyond_minimum(self, pool: LocalBufferPool[BufferListener]) -> int:
        return self.total if pool.maximum is None else pool.maximum - pool.minimum

    def _promise(self, count: int) -> None:
        if self.is_destroyed:
            raise BufferPoolDestroyedError("the network buffers are destroyed and cannot be reserved")
        available = self.total - self.promised
        if count > available:
            raise NetworkBuffersExhaustedError(required=count, available=available, total=self.total)
        self.promised += count

    def _resize(self, pool: LocalBufferPool[BufferListener], size: int) -> None:
        before = pool.size
        pool.resize(size)
        if pool.size != before:
            self._resized[pool] = None


def _room(pool: LocalBufferPool[BufferListener], spare: int) -> int:
    return spare if pool.maximum is None else min(spare, pool.maximum - pool.minimum)


BUFFERS_PER_CHANNEL = 2
FLOATING_BUFFERS_PER_GATE = 2
"""The default number of floating buffers per gate. Flink has 8, of 32 KiB each; here a buffer holds a batch.
"""
ENOUGH = 2**31 - 1


@trace_tag("cluster.network_settings")
@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Network memory of a TaskManager. `None` means as much as its tasks need.

    Corresponds to Flink's `taskmanager.network.numberOfBuffers`, `taskmanager.memory.network`,
    `taskmanager.network.memory.buffers-per-channel` and `floating-buffers-per-gate`.
    """

    network_buffers: int | None = None
    network_memory_bytes: int | None = None
    buffers_per_channel: int = BUFFERS_PER_CHANNEL
    floating_buffers_per_gate: int = FLOATING_BUFFERS_PER_GATE

    @property
    def bytes_per_buffer(self) -> int | None:
        if self.network_memory_bytes is None or self.network_buffers is None:
            return None
        return max(self.network_memory_bytes // max(self.network_buffers, 1), 1)


Pool = LocalBufferPool[BufferListener]


@dataclass(frozen=True, slots=True)
class _Registered:
    outputs: tuple[Pool, ...]
    gates: tuple[Pool, ...]
    exclusive: int


class ShuffleEnvironment:
    def __init__(self, settings: NetworkSettings | None = None) -> None:
        self.settings = settings or NetworkSettings()
        total = self.settings.network_buffers
        self.buffers = NetworkBufferPool(ENOUGH if total is None else total)
        self._tasks: dict[ExecutionAttemptId, _Registered] = {}
        self._task_of: dict[Pool, ExecutionAttemptId] = {}

    def register_task(
        self, attempt: ExecutionAttemptId, subpartitions: Sequence[int], channels: Sequence[int]
    ) -> TaskBuffers:
        """Assign buffers to a task with these numbers of subpartitions per output and of channels per gate.

        The task may begin with its minimum; `take_resized` reports later when it gets more.

        Raises:
            NetworkBuffersExhaustedError: too few buffers are left for the task's minimum. The task gets no buffers.
        """
        exclusive = self.settings.buffers_per_channel * sum(channels)
        required = sum(subpartitions) + len(subpartitions) + exclusive
        available = self.buffers.total - self.buffers.promised
        if required > available:
            raise NetworkBuffersExhaustedError(required=required, available=available, total=self.buffers.total)
        floating = self.settings.floating_buffers_per_gate
        outputs = tuple(self.buffers.create_pool(count + 1, count + 1 + floating) for count in subpartitions)
        if exclusive:
            self.buffers.take_exclusive(exclusive)
        gates = tuple(self.buffers.create_pool(0, floating) for _ in channels)
        self._tasks[attempt] = _Registered(outputs, gates, exclusive)
        self._task_of.update(dict.fromkeys((*outputs, *gates), attempt))
        return self._buffers_of(attempt)

    def unregister_task(self, attempt: ExecutionAttemptId) -> None:
        task = self._tasks.pop(attempt, None)
        if task is None:
            return
        for pool in (*task.outputs, *task.gates):
            del self._task_of[pool]
            self.buffers.destroy_pool(pool)
        if task.exclusive:
            self.buffers.give_back_exclusive(task.exclusive)

    @property
    def is_settled(self) -> bool:
        return self.buffers.is_settled

    def take_resized(self) -> dict[ExecutionAttemptId, TaskBuffers]:
        resized = {self._task_of[pool]: None for pool in self.buffers.take_resized()}
        return {attempt: self._buffers_of(attempt) for attempt in resized}

    def check(self) -> None:
        self.buffers.check()
        assert len(self._task_of) == sum(len(task.outputs) + len(task.gates) for task in self._tasks.values())

    def _buffers_of(self, attempt: ExecutionAttemptId) -> TaskBuffers:
        task = self._tasks[attempt]
        return TaskBuffers(
            outputs=tuple(pool.last_size for pool in task.outputs),
            floating=tuple(pool.last_size for pool in task.gates),
            exclusive=self.settings.buffers_per_channel,
            bytes_per_buffer=self.settings.bytes_per_buffer,
        )
