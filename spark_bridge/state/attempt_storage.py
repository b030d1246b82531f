"""The storage of an attempt: batches of state in the job's store, and files in checkpoint storage.

State beyond the managed memory goes to the executors' disks, as with Flink's RocksDB. Sizes are estimated from the row
and column counts of batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.segments import Frame
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.state.file_digests import StateFiles

if TYPE_CHECKING:
    from flykka.actors.machines.state.keyed_state import Handle
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.rows.batches import BatchStore
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.attempt_scope import AttemptScope
    from flykka.spark_bridge.state.local_state import LocalState, LocalStates


class ManagedMemory:
    """A memory budget for the batches of state segments, in bytes (None: unlimited)."""

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
        return self.budget_bytes is None or self.used_bytes + size_bytes <= self.budget_bytes

    def reserve(self, batch_id: BatchId, size_bytes: int) -> bool:
        with self._lock:
            if self.budget_bytes is not None and self._used + size_bytes > self.budget_bytes:
                return False
            if batch_id not in self._reserved:
                self._reserved[batch_id] = size_bytes
                self._used += size_bytes
            return True

    def release(self, batch_ids: Iterable[BatchId]) -> None:
        with self._lock:
            for batch_id in batch_ids:
                self._used -= self._reserved.pop(batch_id, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStorage:
    """With `merges_in_background`, segments are merged in parallel to stages."""

    descriptor: TaskDeploymentDescriptor
    scope: AttemptScope
    store: BatchStore
    filesystem: FileSystem
    local_states: LocalStates
    memory: ManagedMemory = field(default_factory=ManagedMemory)
    merges_in_background: bool = True

    @property
    def files(self) -> StateFiles:
        sync = self.descriptor.checkpoint_fsync
        return StateFiles(filesystem=self.filesystem, session=self.scope.session, sync=sync)

    @property
    def local(self) -> LocalState[Any]:
        vertex = self.descriptor.vertex
        return self.local_states.of(vertex.vertex_id, self.descriptor.subtask, vertex.parallelism)


class StoredState(Generic[Frame]):
    def __init__(self, storage: AttemptStorage) -> None:
        descriptor = storage.descriptor
        vertex = descriptor.vertex
        self.owned = key_groups_of(descriptor.subtask, vertex.max_parallelism, vertex.parallelism)
        self.attempt: str = descriptor.attempt
        self.local: LocalState[Frame] = storage.local
        self._descriptor = descriptor
        self._scope = storage.scope
        self._filesystem = storage.filesystem
        self._store = storage.store
        self._holder = f"{descriptor.attempt} state"
        self._lock = Lock()

    def delete(self, handle: Handle) -> None:
        self._filesystem.delete(handle.path)

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        self._store.hold(batch_ids, holder or self._holder)

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        self._store.release(batch_ids, holder or self._holder)

    def check(self) -> None:
        self._scope.check()
