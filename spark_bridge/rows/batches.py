"""The batch store: the rows behind BatchRefs, and who still needs them.

A batch is materialised with `localCheckpoint`, so that it lies in the memory and on the disks of the executors, and
its numbers are counted by the same job. It is freed explicitly: Spark would wait for the JVM's garbage collector.

Who holds what, and when the last holder has let go, is decided by `BatchHolders`; then the blocks are freed. Slices of
one materialisation share it.

Every job has a store of its own, which ends with it: what a thread that is still on its way out adds behind the end is
freed at once, and its end waits for all that is being freed. So whatever comes late, nothing is
left of a job that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from threading import Condition
from typing import TYPE_CHECKING, Protocol

from flykka.actors.machines.attempt.batches import IN_TRANSIT, Address, BatchHolders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.exchange import BatchRef
    from flykka.messages.tasks.source import SourceSplit
    from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
    from flykka.spark_bridge.rows.materialise import Slices


class Storage(Protocol):
    """The place of one or several batches, freed with the last of them."""

    @property
    def rdd_id(self) -> int | None:
        """Spark's id of it, where it is an RDD."""

    def is_whole(self) -> bool:
        """True if nothing of it was lost with an executor or its disk."""

    def free(self) -> None:
        """Free it, without waiting for the executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to take in: its rows, the subpartition it goes to if it goes to one, its first holder.

    Nobody takes a batch that has no rows here: files of state are held by what knows how to read them. One that is
    `on_disk` takes no memory.
    """

    ref: BatchRef
    rows: DataFrame | LazyRows | None
    address: Address | None = None
    holder: str = IN_TRANSIT
    on_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The contents of the store at a moment."""

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
    """The rows of one batch, their number, the blocks that they lie in, and about how much memory these take."""

    rows: DataFrame | LazyRows | None
    storage: Storage
    count: int
    memory_bytes: int


class BatchStore:
    """All batches of one job. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Condition()
        self._closed = False
        self._held: BatchHolders[_Content] = BatchHolders()
        self._stored_in: dict[Storage, int] = {}
        self._at_work = 0
        """Threads that free blocks nothing refers to any more."""

    def put(self, storage: Storage, batches: Sequence[Batch], *, producer: ExecutionAttemptId) -> None:
        """Take in the batches that lie in `storage`; where none does it is freed, and always when the job is over.

        Then the batches are as good as released.
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

    def claim(self, batch_id: BatchId, reader: str) -> DataFrame | LazyRows:
        """The rows of a batch, held by `reader` from now on. Raises `UnknownBatchError` where it was released."""
        with self._lock:
            return _rows(self._held.claim(batch_id, reader))

    def rows(self, batch_id: BatchId) -> DataFrame | LazyRows:
        """The rows of a batch that the caller holds already. Raises `UnknownBatchError` where it was released."""
        with self._lock:
            return _rows(self._held.content(batch_id))

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Add a holder. Raises `UnknownBatchError` where one of the batches was released."""
        with self._lock:
            self._held.hold(batch_ids, holder)

    def is_whole(self, batch_id: BatchId) -> bool:
        """True if no row was lost of a batch that the caller holds."""
        with self._lock:
            storage = self._held.content(batch_id).storage
        return storage.is_whole()

    def memory_bytes(self, batch_id: BatchId) -> int:
        """About how much memory a batch takes that the caller holds."""
        with self._lock:
            return self._held.content(batch_id).memory_bytes

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> None:
        """Let go of batches; nothing happens to those that are gone or are not held by `holder`."""
        self._free(lambda held: held.release(batch_ids, holder))

    def release_held_by(self, holder: str) -> None:
        self._free(lambda held: held.release_held_by(holder))

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> None:
        """Let go of what an attempt holds that has ended; see `BatchHolders.release_attempt`."""
        self._free(lambda held: held.release_attempt(attempt, addresses, is_cancelled=is_cancelled))

    def release_produced(self, producer: ExecutionAttemptId) -> None:
        """Let go of what an attempt has made, which another one makes again."""
        self._free(lambda held: held.release_produced(producer))

    def release_partitions(self, partitions: frozenset[ResultPartitionId]) -> None:
        self._free(lambda held: held.release_partitions(partitions))

    def close(self) -> None:
        """End the job: free every batch, even one that is held, and from now on every batch that is put.

        Returns when all is freed, also what others are freeing meanwhile.
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
        """The result partition whose batches lie in a materialisation; None for state, and for what is not here."""
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
        """With the lock, a list; what was put into it is freed behind the lock, for that is a call to the JVM."""
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


def _rows(content: _Content) -> DataFrame | LazyRows:
    assert content.rows is not None, "state is read by those who keep it"
    return content.rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LazyRows:
    """Splits of the source operator `uid` that no stage has read, how to read them, and the numbers of their rows.

    The stage that the batch goes to reads them, several small ones of a source as one scan: to hand rows on would cost
    a Spark job and a copy. Implements `Storage`: nothing lies anywhere for them. The latest event time is in ms; None:
    no row has one, or nobody asks.
    """

    uid: str
    splits: tuple[SourceSplit, ...]
    read: Callable[[tuple[SourceSplit, ...]], Slices]
    rows: int
    size_bytes: int
    event_time_max: int | None

    @property
    def rdd_id(self) -> None:
        """No RDD."""

    def is_whole(self) -> bool:
        """True: they can be read whenever they are asked for."""
        return True

    def free(self) -> None:
        """There is nothing to free."""


def slices_of(batches: Iterable[DataFrame | LazyRows]) -> Iterator[tuple[str | None, Slices]]:
    """Return the rows of batches in their order as frames, read now where they are lazy, with the source's uid then."""
    for source, run in groupby(batches, lambda each: (each.uid, each.read) if isinstance(each, LazyRows) else None):
        if source is None:
            yield from ((None, (each,)) for each in run if not isinstance(each, LazyRows))
        else:
            uid, read = source
            yield uid, read(tuple(split for each in run if isinstance(each, LazyRows) for split in each.splits))
