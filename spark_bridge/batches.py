"""The batch store: the rows behind BatchRefs, and who still needs them.

A batch is materialised with `localCheckpoint`, so that it lies in the memory and on the disks of the executors, and
its numbers are counted by the same job. It is freed explicitly: Spark would wait for the JVM's garbage collector.

Every batch has holders. One that was put is held for its reader, the subpartition it is addressed to; a reader takes
it over and lets go of it when its stage is done; state holds what it keeps; a snapshot that is being written holds
what it writes. When the last holder lets go, the blocks are freed. Slices of one materialisation share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.errors import UnknownBatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.batch import BatchRef
    from flykka.messages.ids import BatchId, ExecutionAttemptId, JobId, ResultPartitionId


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

    batches: int
    rows: int
    materialisations: int


@dataclass(slots=True, kw_only=True)
class _Entry:
    ref: BatchRef
    frame: DataFrame
    blocks: Blocks
    job_id: JobId
    producer: ExecutionAttemptId
    address: Address | None
    holders: set[str] = field(default_factory=set)


class BatchStore:
    """All batches of one Spark session. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[BatchId, _Entry] = {}
        self._in_blocks: dict[Blocks, int] = {}

    def put(self, blocks: Blocks, batches: Iterable[Batch], *, job_id: JobId, producer: ExecutionAttemptId) -> None:
        """Take in the batches that lie in `blocks`; blocks in which none lies are freed."""
        made = [
            _Entry(
                ref=batch.ref,
                frame=batch.frame,
                blocks=blocks,
                job_id=job_id,
                producer=producer,
                address=batch.address,
                holders={batch.holder},
            )
            for batch in batches
        ]
        if not made:
            blocks.free()
            return
        with self._lock:
            for entry in made:
                assert entry.ref.batch_id not in self._entries, f"two batches are called {entry.ref.batch_id}"
                self._entries[entry.ref.batch_id] = entry
            self._in_blocks[blocks] = self._in_blocks.get(blocks, 0) + len(made)

    def take(self, batch_id: BatchId, reader: str) -> DataFrame:
        """The rows of a batch, held by `reader` from now on in place of its address.

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
        with self._lock:
            freed = [blocks for batch_id in batch_ids for blocks in self._let_go(batch_id, {holder})]
        _free(freed)

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
        """Let go of what an attempt produced and nobody has taken."""
        self._release_where(lambda entry: {IN_TRANSIT} if entry.producer == producer else set())

    def release_job(self, job_id: JobId) -> None:
        """Free every batch of a job, whoever holds it."""
        self._release_where(lambda entry: set(entry.holders) if entry.job_id == job_id else set())

    def stats(self) -> StoreStats:
        """What is held now."""
        with self._lock:
            return StoreStats(
                batches=len(self._entries),
                rows=sum(entry.ref.rows for entry in self._entries.values()),
                materialisations=len(self._in_blocks),
            )

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
        with self._lock:
            freed = [
                blocks
                for batch_id, entry in list(self._entries.items())
                for blocks in self._let_go(batch_id, let_go(entry))
            ]
        _free(freed)

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


def _free(freed: Iterable[Blocks]) -> None:
    """Outside the lock: it is a call to the JVM."""
    for blocks in freed:
        blocks.free()
