"""The network buffers of one TaskManager, task by task: whether a task fits, and how many buffers each part of it has.

What a task cannot do without is one buffer for each subpartition and one more for each output, and the exclusive
buffers of its channels; floating buffers it gets as there are. Follows Flink's NettyShuffleEnvironment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flykka.actors.errors import NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.buffer_pool import BufferListener, LocalBufferPool
from flykka.actors.machines.exchange.network_buffer_pool import NetworkBufferPool
from flykka.messages.tasks.exchange import TaskBuffers
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.tags import trace_tag

BUFFERS_PER_CHANNEL = 2
FLOATING_BUFFERS_PER_GATE = 2
"""Flink's is 8, of 32 KiB each; a buffer here is room for a whole batch."""
ENOUGH = 2**31 - 1
"""The number of buffers where nobody says how many there are."""


@trace_tag("cluster.network_settings")
@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Network memory of a TaskManager. None: as much as its tasks need.

    Flink's `taskmanager.network.numberOfBuffers`, `taskmanager.memory.network`,
    `taskmanager.network.memory.buffers-per-channel` and `floating-buffers-per-gate`.
    """

    network_buffers: int | None = None
    network_memory_bytes: int | None = None
    buffers_per_channel: int = BUFFERS_PER_CHANNEL
    floating_buffers_per_gate: int = FLOATING_BUFFERS_PER_GATE

    @property
    def bytes_per_buffer(self) -> int | None:
        """The bytes that one buffer stands for, where bytes are bounded."""
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
    """Shares the network buffers of a TaskManager among its tasks."""

    def __init__(self, settings: NetworkSettings | None = None) -> None:
        self.settings = settings or NetworkSettings()
        total = self.settings.network_buffers
        self.buffers = NetworkBufferPool(ENOUGH if total is None else total)
        self._tasks: dict[ExecutionAttemptId, _Registered] = {}
        self._task_of: dict[Pool, ExecutionAttemptId] = {}

    def register_task(
        self, attempt: ExecutionAttemptId, subpartitions: Sequence[int], channels: Sequence[int]
    ) -> TaskBuffers:
        """Give buffers to a task whose outputs have these subpartitions and whose gates these channels.

        It may begin with its minimum; `take_resized` tells when there is more for it.

        Raises:
            NetworkBuffersExhaustedError: its minimum is more than what is left; it has nothing then.
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
        """The task has ended; what it had is for the others."""
        ended = self._tasks.pop(attempt, None)
        if ended is None:
            return
        for pool in (*ended.outputs, *ended.gates):
            del self._task_of[pool]
            self.buffers.destroy_pool(pool)
        if ended.exclusive:
            self.buffers.give_back_exclusive(ended.exclusive)

    @property
    def is_settled(self) -> bool:
        """Nobody has to be told of other sizes."""
        return self.buffers.is_settled

    def take_resized(self) -> dict[ExecutionAttemptId, TaskBuffers]:
        """The tasks that have more or fewer buffers than they were told."""
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
