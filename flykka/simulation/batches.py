"""The batches of a simulation, held by the product's rules, with rows that can be counted.

A batch that was let go of leaves a note why: to read it afterwards is a violation, unless its attempts are on their way
out.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.batches import IN_TRANSIT, KEPT, Address, BatchHolders
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.simulation.rows import Rows


class Segments:
    """Implements `Holders`: the rows of a segment stay as long as somebody has them.

    For the attempts to come every other segment is lost, so that some state is still there and some has to be read.
    """

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Rows stay."""

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Rows go with the last that has them."""

    def is_whole(self, batch_id: BatchId) -> bool:
        """True for the segments of even numbers."""
        return int(batch_id.rpartition("-")[2]) % 2 == 0


class Batches:
    """The batches of one job. `read_after_release` are those that were read when they were used up."""

    def __init__(self) -> None:
        self._held: BatchHolders[Rows] = BatchHolders()
        self._gone_with: dict[BatchId, str] = {}
        self._made_by: dict[BatchId, ExecutionAttemptId] = {}
        self._cancelled: set[ExecutionAttemptId] = set()
        self.read_after_release: list[str] = []

    def put(
        self,
        ref: BatchRef,
        rows: Rows,
        *,
        producer: ExecutionAttemptId,
        address: Address | None,
        holder: str = IN_TRANSIT,
    ) -> None:
        """Take in a batch, for its reader or, where it is kept, for its readers."""
        self._made_by[ref.batch_id] = producer
        self._held.put(ref.batch_id, rows, producer=producer, address=address, holder=holder)

    def claim(self, batch_id: BatchId, reader: str) -> Rows:
        """The rows of a batch, held by `reader` from now on in place of its address. Raises `UnknownBatchError`."""
        try:
            return self._held.claim(batch_id, reader)
        except UnknownBatchError:
            why = self._gone_with.get(batch_id, "nobody has made it")
            # A checkpoint may have held it longer than its producer was there.
            is_expected = why.endswith("has ended") or self._made_by.get(batch_id) in self._cancelled
            if not is_expected:
                self.read_after_release.append(f"{reader} reads {batch_id}: {why or 'everybody has let go of it'}")
            raise

    def rows(self, batch_id: BatchId) -> Rows:
        """The rows of a batch that may be wanted too late, which is no violation. Raises `UnknownBatchError`."""
        return self._held.content(batch_id)

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Add a holder. Raises `UnknownBatchError` where a batch is gone."""
        self._held.hold(batch_ids, holder)

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Let go of batches; nothing happens to those that are gone or are not held by `holder`."""
        self._note(self._held.release(batch_ids, holder))

    def release_held_by(self, holder: str) -> None:
        """Let go of all that one holder holds."""
        self._note(self._held.release_held_by(holder))

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> None:
        """An attempt has ended; what one has sent that has finished is still to be read."""
        if is_cancelled:
            self._cancelled.add(attempt)
        gone = self._held.release_attempt(attempt, addresses, is_cancelled=is_cancelled)
        self._note(gone, f"{attempt} has ended" if is_cancelled else "")

    def release_produced(self, producer: ExecutionAttemptId) -> None:
        """Another attempt has taken the place of this one."""
        self._note(self._held.release_produced(producer), f"{producer} has ended")

    def release_partitions(self, partition_ids: Iterable[ResultPartitionId]) -> None:
        """Let go of what is kept in these partitions."""
        self._note(self._held.release_partitions(frozenset(partition_ids)))

    def left(self) -> list[BatchId]:
        """The batches that somebody still holds, beside those that are kept until the job ends."""
        return [batch_id for batch_id, holders in self._held.holders().items() if holders != {KEPT}]

    def release_all(self) -> None:
        """The job is over."""
        self._note(self._held.release_all(), "its job has ended")

    def _note(self, gone: Iterable[BatchId], why: str = "") -> None:
        self._gone_with.update(dict.fromkeys(gone, why))
