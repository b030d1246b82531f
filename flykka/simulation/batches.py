"""The batches of a simulation, and who still needs them: the rules of the bridge's batch store, with rows one can see.

A batch that was let go of leaves a note why: to read it afterwards is a violation, unless its attempts are on their way
out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flykka.messages.batch import BatchRef
from flykka.messages.ids import BatchId, ExecutionAttemptId, JobId, ResultPartitionId
from flykka.simulation.rows import Rows

IN_TRANSIT = "in transit"
"""Who holds a batch between its producer and its reader."""
KEPT = "kept in its partition"
"""Who holds a batch of a partition that is read when it is finished, and by anybody."""

Address = tuple[ResultPartitionId, int]
"""A subpartition."""


class BatchReleasedError(LookupError):
    """A batch was read that nobody holds any more."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    rows: Rows
    job_id: JobId
    producer: ExecutionAttemptId
    address: Address | None
    holders: set[str] = field(default_factory=set)


class BatchStore:
    """All batches. `read_after_release` are those that were read when they were used up."""

    def __init__(self) -> None:
        self._entries: dict[BatchId, _Entry] = {}
        self._gone_with: dict[BatchId, str] = {}
        self.read_after_release: list[str] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(
        self,
        ref: BatchRef,
        rows: Rows,
        *,
        job_id: JobId,
        producer: ExecutionAttemptId,
        address: Address | None,
        holder: str = IN_TRANSIT,
    ) -> None:
        """Take in a batch, for its reader or, where it is kept, for its readers."""
        assert ref.batch_id not in self._entries, f"two batches are called {ref.batch_id}"
        self._entries[ref.batch_id] = _Entry(
            rows=rows, job_id=job_id, producer=producer, address=address, holders={holder}
        )

    def take(self, batch_id: BatchId, reader: str) -> Rows:
        """The rows of a batch, held by `reader` from now on in place of its address. Raises `BatchReleasedError`."""
        entry = self._entry(batch_id, reader)
        entry.holders.discard(IN_TRANSIT)
        entry.holders.add(reader)
        return entry.rows

    def rows(self, batch_id: BatchId) -> Rows:
        """The rows of a batch that may be wanted too late, which is no violation. Raises `BatchReleasedError`."""
        entry = self._entries.get(batch_id)
        if entry is None:
            raise BatchReleasedError(f"batch {batch_id} was released")
        return entry.rows

    def hold(self, batch_id: BatchId, holder: str) -> bool:
        """Add a holder; whether the batch is still there."""
        entry = self._entries.get(batch_id)
        if entry is not None:
            entry.holders.add(holder)
        return entry is not None

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> None:
        """Let go of batches; nothing happens to those that are gone or are not held by `holder`."""
        for batch_id in batch_ids:
            self._let_go(batch_id, {holder}, "")

    def release_held_by(self, holder: str) -> None:
        """Let go of all that one holder holds."""
        for batch_id in list(self._entries):
            self._let_go(batch_id, {holder}, "")

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> None:
        """An attempt has ended: let go of what it holds, what is on its way to it, and what it made where cancelled."""
        for batch_id, entry in list(self._entries.items()):
            held = {holder for holder in entry.holders if holder == attempt or holder.startswith(f"{attempt} ")}
            if is_cancelled and entry.producer == attempt:
                held |= {IN_TRANSIT, KEPT}
            if entry.address in addresses:
                held.add(IN_TRANSIT)
            self._let_go(batch_id, held, f"{attempt} has ended")

    def release_kept(self, producer: ExecutionAttemptId) -> None:
        """Let go of all that an attempt has kept: another one has taken its place."""
        for batch_id, entry in list(self._entries.items()):
            if entry.producer == producer:
                self._let_go(batch_id, {KEPT}, f"{producer} has ended")

    def release_partitions(self, partition_ids: Iterable[ResultPartitionId]) -> None:
        """Let go of what is kept in these partitions."""
        released = frozenset(partition_ids)
        for batch_id, entry in list(self._entries.items()):
            if entry.address is not None and entry.address[0] in released:
                self._let_go(batch_id, {KEPT}, "")

    def left_of_job(self, job_id: JobId) -> list[BatchId]:
        """The batches of a job that somebody still holds, beside those that are kept until it ends."""
        return [
            batch_id for batch_id, entry in self._entries.items() if entry.job_id == job_id and entry.holders != {KEPT}
        ]

    def release_job(self, job_id: JobId) -> None:
        """Let go of every batch of a job, whoever holds it."""
        for batch_id in [each for each, entry in self._entries.items() if entry.job_id == job_id]:
            self._let_go(batch_id, set(self._entries[batch_id].holders), f"{job_id} is over")

    def _entry(self, batch_id: BatchId, reader: str) -> _Entry:
        entry = self._entries.get(batch_id)
        if entry is None:
            why = self._gone_with.get(batch_id, "nobody has made it")
            if not why.endswith(("has ended", "is over")):
                self.read_after_release.append(f"{reader} reads {batch_id}: {why or 'everybody has let go of it'}")
            raise BatchReleasedError(f"batch {batch_id} was released")
        return entry

    def _let_go(self, batch_id: BatchId, holders: set[str], why: str) -> None:
        entry = self._entries.get(batch_id)
        if entry is None or not entry.holders & holders:
            return
        entry.holders -= holders
        if not entry.holders:
            del self._entries[batch_id]
            self._gone_with[batch_id] = why
