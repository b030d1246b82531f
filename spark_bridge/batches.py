"""The batch store: the rows behind BatchRefs, and who still needs them.

A batch is materialised with `localCheckpoint`, so that it lies in the memory and on the disks of the executors, and
its numbers are counted by the same job. It is freed explicitly: Spark would wait for the JVM's garbage collector.

Every batch has holders. One that was put is held for its reader, the subpartition it is addressed to; a reader takes
it over and lets go of it when its stage is done; state holds what it keeps; a snapshot that is being written holds
what it writes. What lies in a BLOCKING partition is held by that, however often it is read, until the partition is
released. When the last holder lets go, the blocks are freed. Slices of one materialisation share it.

Every job has a store of its own, which ends with it: what a thread that is still on its way out adds behind the end is
freed at once, and who ends it waits for those who are freeing what was let go before. So whoever is late, nothing is
left of a job that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.errors import UnknownBatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.batch import BatchRef
    from flykka.messages.ids import BatchId, ExecutionAttemptId, ResultPartitionId


class Blocks:
    """The blocks of one materialisation, freed with the last batch that lies in them."""

    def __init__(self, frame: DataFrame) -> None:
        """`frame` is what `localCheckpoint` returned."""
        self.frame = frame
        self.rdd: Any = frame._jdf.queryExecution().analyzed().rdd()
        self.rdd_id = int(self.rdd.id())

    def free(self) -> None:
        """Free them, without waiting for the executors."""
        self.rdd.unpersist(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a batch is read: a subpartition."""

    partition: ResultPartitionId
    subpartition: int


IN_TRANSIT = "in transit"
"""Who holds a batch between its producer and its reader."""
KEPT = "kept in its partition"
"""Who holds a batch of a partition that is read when it is finished, and by anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to take in: the frame that reads it, the subpartition it goes to if it goes to one, its first holder."""

    ref: BatchRef
    frame: DataFrame
    address: Address | None = None
    holder: str = IN_TRANSIT


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What the store holds at a moment."""

    batches: int = 0
    rows: int = 0
    materialisations: int = 0

    def __add__(self, other: StoreStats) -> StoreStats:
        return StoreStats(
            batches=self.batches + other.batches,
            rows=self.rows + other.rows,
            materialisations=self.materialisations + other.materialisations,
        )


@dataclass(slots=True, kw_only=True)
class _Entry:
    ref: BatchRef
    frame: DataFrame
    blocks: Blocks
    producer: ExecutionAttemptId
    address: Address | None
    holders: set[str] = field(default_factory=set)


class BatchStore:
    """All batches of one job. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Condition()
        self._closed = False
        self._entries: dict[BatchId, _Entry] = {}
        self._in_blocks: dict[Blocks, int] = {}
        self._at_work = 0
        """Threads that free blocks nothing refers to any more."""

    def put(self, blocks: Blocks, batches: Iterable[Batch], *, producer: ExecutionAttemptId) -> None:
        """Take in the batches that lie in `blocks`; blocks in which none lies are freed, and all when the job is over.

        Then the batches are as good as released.
        """
        made = [
            _Entry(
                ref=batch.ref,
                frame=batch.frame,
                blocks=blocks,
                producer=producer,
                address=batch.address,
                holders={batch.holder},
            )
            for batch in batches
        ]
        with self._freeing() as freed:
            if not made or self._closed:
                freed.append(blocks)
                return
            for entry in made:
                assert entry.ref.batch_id not in self._entries, f"two batches are called {entry.ref.batch_id}"
                self._entries[entry.ref.batch_id] = entry
            self._in_blocks[blocks] = self._in_blocks.get(blocks, 0) + len(made)

    def take(self, batch_id: BatchId, reader: str) -> DataFrame:
        """The rows of a batch, held by `reader` from now on in place of its address; a kept one stays kept, too.

        Raises:
            UnknownBatchError: the batch was released.
        """
        with self._lock:
            entry = self._entry(batch_id)
            entry.holders.discard(IN_TRANSIT)
            entry.holders.add(reader)
            return entry.frame

    def rows(self, batch_id: BatchId) -> DataFrame:
        """The rows of a batch that the caller holds already. Raises `UnknownBatchError` where it was released."""
        with self._lock:
            return self._entry(batch_id).frame

    def hold(self, batch_id: BatchId, holder: str) -> None:
        """Add a holder. Raises `UnknownBatchError` where the batch was released."""
        with self._lock:
            self._entry(batch_id).holders.add(holder)

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> None:
        """Let go of batches; nothing happens to those that are gone or are not held by `holder`."""
        with self._freeing() as freed:
            for batch_id in batch_ids:
                freed += self._let_go(batch_id, {holder})

    def release_held_by(self, holder: str) -> None:
        """Let go of everything that one holder holds."""
        self._release_where(lambda entry: entry.holders & {holder})

    def release_held(self, attempt: ExecutionAttemptId) -> None:
        """Let go of everything that an attempt holds: holders that are its name, or begin with it and a blank."""

        def held(entry: _Entry) -> set[str]:
            return {holder for holder in entry.holders if holder == attempt or holder.startswith(f"{attempt} ")}

        self._release_where(held)

    def release_addressed(self, addresses: frozenset[Address]) -> None:
        """Let go of what is on its way to a reader that is closing."""
        self._release_where(lambda entry: {IN_TRANSIT} if entry.address in addresses else set())

    def release_produced(self, producer: ExecutionAttemptId) -> None:
        """Let go of what an attempt produced: what nobody has taken, and what was kept for whoever would read it."""
        self._release_where(lambda entry: {IN_TRANSIT, KEPT} if entry.producer == producer else set())

    def release_partitions(self, partitions: frozenset[ResultPartitionId]) -> None:
        """Let go of what was kept in these partitions."""

        def kept(entry: _Entry) -> set[str]:
            return {KEPT} if entry.address is not None and entry.address.partition in partitions else set()

        self._release_where(kept)

    def close(self) -> None:
        """The job is over: free every batch, whoever holds it, and from now on whatever is put.

        Returns when all is freed, also what others are freeing meanwhile.
        """
        with self._freeing() as freed:
            self._closed = True
            freed += self._in_blocks
            self._entries.clear()
            self._in_blocks.clear()
        with self._lock:
            self._lock.wait_for(lambda: self._at_work == 0)

    def stats(self) -> StoreStats:
        """What is held now."""
        with self._lock:
            return StoreStats(
                batches=len(self._entries),
                rows=sum(entry.ref.rows for entry in self._entries.values()),
                materialisations=len(self._in_blocks),
            )

    def partition_of(self, rdd_id: int) -> ResultPartitionId | None:
        """The result partition whose batches lie in a materialisation; None for state, and for what is not here."""
        with self._lock:
            entries = (entry for entry in self._entries.values() if entry.blocks.rdd_id == rdd_id)
            return next((entry.address.partition for entry in entries if entry.address is not None), None)

    def rdd_ids(self) -> frozenset[int]:
        """Spark's ids of the materialisations."""
        with self._lock:
            return frozenset(blocks.rdd_id for blocks in self._in_blocks)

    def holders(self) -> Mapping[BatchId, frozenset[str]]:
        """Who holds what, for messages and tests."""
        with self._lock:
            return {batch_id: frozenset(entry.holders) for batch_id, entry in self._entries.items()}

    def _entry(self, batch_id: BatchId) -> _Entry:
        entry = self._entries.get(batch_id)
        if entry is None:
            raise UnknownBatchError(f"batch {batch_id} was released, or belongs to another process")
        return entry

    def _release_where(self, let_go: Callable[[_Entry], set[str]]) -> None:
        with self._freeing() as freed:
            for batch_id, entry in list(self._entries.items()):
                freed += self._let_go(batch_id, let_go(entry))

    @contextmanager
    def _freeing(self) -> Iterator[list[Blocks]]:
        """With the lock, a list; what was put into it is freed behind the lock, for that is a call to the JVM."""
        freed: list[Blocks] = []
        with self._lock:
            yield freed
            self._at_work += bool(freed)
        if not freed:
            return
        try:
            for blocks in freed:
                blocks.free()
        finally:
            with self._lock:
                self._at_work -= 1
                self._lock.notify_all()

    def _let_go(self, batch_id: BatchId, holders: set[str]) -> list[Blocks]:
        """Take holders from a batch; the blocks that nobody needs any more. The caller has the lock."""
        entry = self._entries.get(batch_id)
        if entry is None or not entry.holders & holders:
            return []
        entry.holders -= holders
        if entry.holders:
            return []
        del self._entries[batch_id]
        self._in_blocks[entry.blocks] -= 1
        if self._in_blocks[entry.blocks]:
            return []
        del self._in_blocks[entry.blocks]
        return [entry.blocks]
