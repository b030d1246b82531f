"""The managed memory of one attempt: how much of its state may lie in the executors' memory.

State beyond it lies on their disks, as with Flink's RocksDB. Sizes are those of batches, estimated by rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from flykka.messages.wire.ids import BatchId


class ManagedMemory:
    """A budget of bytes (None: as much as there is) that segments of state are counted against, by their batches."""

    def __init__(self, budget_bytes: int | None = None) -> None:
        self.budget_bytes = budget_bytes
        self._lock = Lock()
        self._reserved: dict[BatchId, int] = {}
        self._used = 0

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return self._used

    def has_room_for(self, size_bytes: int) -> bool:
        """True if so much more may lie in memory."""
        return self.budget_bytes is None or self.used_bytes + size_bytes <= self.budget_bytes

    def reserve(self, batch_id: BatchId, size_bytes: int) -> bool:
        """Count a segment; False, and it is not, where it may not lie in memory."""
        with self._lock:
            if self.budget_bytes is not None and self._used + size_bytes > self.budget_bytes:
                return False
            if batch_id not in self._reserved:
                self._reserved[batch_id] = size_bytes
                self._used += size_bytes
            return True

    def release(self, batch_ids: Iterable[BatchId]) -> None:
        """The state needs segments no more, of which some may not be counted."""
        with self._lock:
            for batch_id in batch_ids:
                self._used -= self._reserved.pop(batch_id, 0)
