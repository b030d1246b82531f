"""The batch store: the rows of BatchRefs, and the holders that still need them.

A batch is materialised with `localCheckpoint` in the memory and on the disks of the executors, and the same job counts
its rows. It is freed explicitly, because Spark would wait for the JVM's garbage collector.

When the last holder has released a batch, which `BatchHolders` determines, its blocks are freed. Slices of one
materialisation share its blocks.

Each job has its own store, which is closed with the job. Batches that a late thread adds afterwards are freed at once,
and `close` waits for blocks that are being freed. So an ended job leaves nothing in the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from threading import Condition
from typing import TYPE_CHECKING, Protocol, TypeAlias

from flykka.actors.machines.attempt.batches import IN_TRANSIT, Address, BatchHolders
from flykka.spark_bridge.rows.local_rows import LocalRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.exchange import BatchRef
    from flykka.messages.tasks.source import SourceSplit
    from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
    from flykka.spark_bridge.rows.materialise import Slices

StoredRows: TypeAlias = "DataFrame | LazyRows | LocalRows"


class Storage(Protocol):
    """The blocks or files of one or several batches, which are freed with the last of these batches."""

    @property
    def rdd_id(self) -> int | None:
        """Return the RDD's id in Spark; None if the storage is not an RDD."""

    def is_whole(self) -> bool:
        """Return False if some rows were lost with an executor or its disk."""

    def free(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to be stored: its rows, its target subpartition (if any), and its first holder.

    A batch without `rows` is never claimed: files of state are held by the backend that reads them. A batch `on_disk`
    takes no memory.
    """

    ref: BatchRef
    rows: StoredRows | None
    address: Address | None = None
    holder: str = IN_TRANSIT
    on_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    batches: int = 0
    rows: int = 0
    materialisations: int = 0

    def __add__(self, other: StoreStats) -> StoreStats:
        return StoreStats(
            batches=self.batches + other.batches,
            rows=self.rows + other.rows,
            materialisations=self.materialisations + other.materialisations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    rows: StoredRows | None
    storage: Storage
    count: int
    memory_bytes: int


class BatchStore:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Condition()
        self._closed = False
        self._held: BatchHolders[_Content] = BatchHolders()
        self._stored_in: dict[Storage, int] = {}
        self._at_work = 0
        """The number of threads that are freeing blocks without holders."""

    def put(self, storage: Storage, batches: Sequence[Batch], *, producer: ExecutionAttemptId) -> None:
        """Store the batches in `storage`. Storage without a batch is freed, and so is all storage after the end of the
        job.
        """
        with self._freeing() as freed:
            if not batches or self._closed:
                freed.append(storage)
                return
            for each in batches:
                memory_bytes = 0 if each.on_disk else each.ref.size_bytes
                content = _Content(rows=each.rows, storage=storage, count=each.ref.rows, memory_bytes=memory_bytes)
                self._held.put(each.ref.batch_id, content, producer=producer, address=each.address, holder=each.holder)
            self._stored_in[storage] = self._stored_in.get(storage, 0) + len(batches)

    def claim(self, batch_id: BatchId, reader: str) -> StoredRows:
        """Return the rows of a batch, which `reader` then holds. Raises `UnknownBatchError` if it was released."""
        with self._lock:
            return _rows(self._held.claim(batch_id, reader))

    def rows(self, batch_id: BatchId) -> StoredRows:
        """Return the rows of a batch that the caller already holds. Raises `UnknownBatchError` if it was released."""
        with self._lock:
            return _rows(self._held.content(batch_id))

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Raises `UnknownBatchError` if a batch was released."""
        with self._lock:
            self._held.hold(batch_ids, holder)

    def is_whole(self, batch_id: BatchId) -> bool:
        """Return True if no row of a batch that the caller holds was lost."""
        with self._lock:
            storage = self._held.content(batch_id).storage
        return storage.is_whole()

    def memory_bytes(self, batch_id: BatchId) -> int:
        with self._lock:
            return self._held.content(batch_id).memory_bytes

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> None:
        """Release batches. Batches that do not exist or are not held by `holder` are ignored."""
        self._free(lambda held: held.release(batch_ids, holder))

    def release_held_by(self, holder: str) -> None:
        self._free(lambda held: held.release_held_by(holder))

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> None:
        self._free(lambda held: held.release_attempt(attempt, addresses, is_cancelled=is_cancelled))

    def release_produced(self, producer: ExecutionAttemptId) -> None:
        """Release the output of an attempt, because the next attempt produces that output again."""
        self._free(lambda held: held.release_produced(producer))

    def release_partitions(self, partitions: frozenset[ResultPartitionId]) -> None:
        self._free(lambda held: held.release_partitions(partitions))

    def close(self) -> None:
        """End the job: free every batch, even if it is held, and every batch that is stored later.

        Returns when all blocks are freed, including blocks that other threads are freeing.
        """
        with self._lock:
            self._closed = True
        self._free(lambda held: held.release_all())
        with self._lock:
            self._lock.wait_for(lambda: self._at_work == 0)

    def stats(self) -> StoreStats:
        with self._lock:
            return StoreStats(
                batches=len(self._held),
                rows=sum(content.count for _, content in self._held.contents()),
                materialisations=len(self._stored_in),
            )

    def partition_of(self, rdd_id: int) -> ResultPartitionId | None:
        """Return the result partition whose batches are in a materialised RDD; None for state and for unknown RDDs."""
        with self._lock:
            addresses = (address for address, content in self._held.contents() if content.storage.rdd_id == rdd_id)
            return next((address.partition for address in addresses if address is not None), None)

    def rdd_ids(self) -> frozenset[int]:
        with self._lock:
            return frozenset(each.rdd_id for each in self._stored_in if each.rdd_id is not None)

    def holders(self) -> Mapping[BatchId, frozenset[str]]:
        with self._lock:
            return self._held.holders()

    def _free(self, let_go: Callable[[BatchHolders[_Content]], Mapping[BatchId, _Content]]) -> None:
        with self._freeing() as freed:
            for content in let_go(self._held).values():
                self._stored_in[content.storage] -= 1
                if not self._stored_in[content.storage]:
                    del self._stored_in[content.storage]
                    freed.append(content.storage)

    @contextmanager
    def _freeing(self) -> Iterator[list[Storage]]:
        """Yield a list with the lock held. Free its elements after releasing the lock, because that calls the JVM."""
        freed: list[Storage] = []
        with self._lock:
            yield freed
            self._at_work += bool(freed)
        if not freed:
            return
        try:
            for storage in freed:
                storage.free()
        finally:
            with self._lock:
                self._at_work -= 1
                self._lock.notify_all()


def _rows(content: _Content) -> StoredRows:
    assert content.rows is not None, "the batch has state instead of rows"
    return content.rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LazyRows:
    """Unread splits of the source operator `uid`, a function to read them, and their row count and latest event time.

    The stage that receives the batch reads the splits, several small splits of a source as one scan, because forwarding
    rows would cost a Spark job and a copy. `Storage` is implemented without storing anything. The latest event time is
    in ms; None if no row has one or it is not needed.
    """

    uid: str
    splits: tuple[SourceSplit, ...]
    read: Callable[[tuple[SourceSplit, ...]], Slices]
    rows: int
    size_bytes: int
    event_time_max: int | None

    @property
    def rdd_id(self) -> None: ...

    def is_whole(self) -> bool:
        return True

    def free(self) -> None: ...


IN_DRIVER = "rows in the driver"


def slices_of(batches: Iterable[StoredRows]) -> Iterator[tuple[str | None, Slices]]:
    """Return the rows of batches in order, as frames. Lazy rows are read now and have the uid of their source.

    Adjacent rows in the driver become one frame.
    """

    def source_of(batch: StoredRows) -> object:
        if isinstance(batch, LazyRows):
            return batch.uid, batch.read
        return IN_DRIVER if isinstance(batch, LocalRows) else None

    for _, run in groupby(batches, source_of):
        match list(run):
            case [LazyRows() as lazy, *_] as all_lazy:
                splits = tuple(split for each in all_lazy if isinstance(each, LazyRows) for split in each.splits)
                yield lazy.uid, lazy.read(splits)
            case [LocalRows() as local, *others]:
                yield IN_DRIVER, (local.followed_by([each for each in others if isinstance(each, LocalRows)]).frame,)
            case frames:
                yield from ((None, (each,)) for each in frames if not isinstance(each, LazyRows | LocalRows))
