"""Holders of batches: the rules by which every data plane keeps and frees rows.

Every batch has holders. One that was put is held for its reader, the subpartition it is addressed to; a reader takes it
over and lets go of it when its stage is done; state holds what it keeps; a snapshot that is being written holds what it
writes. What lies in a BLOCKING partition is held by that, however often it is read, until the partition is released.
When the last holder lets go, the batch is gone: what was put with it comes back to the caller, to be freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flykka.actors.errors import UnknownBatchError
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.messages.wire.tags import trace_tag

Content = TypeVar("Content")

IN_TRANSIT = "in transit"
"""Holds a batch between its producer and its reader."""
KEPT = "kept in its partition"
"""Holds a batch of a partition that is read when it is finished, and by any reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The place where a batch is read: a subpartition."""

    partition: ResultPartitionId
    subpartition: int


@trace_tag("state.held_batch")
@dataclass(slots=True, kw_only=True)
class _Entry(Generic[Content]):
    content: Content
    producer: ExecutionAttemptId
    address: Address | None
    holders: set[str] = field(default_factory=set)


def checkpoint_holder(attempt: ExecutionAttemptId, checkpoint_id: int) -> str:
    """Holds the batches in flight of a checkpoint."""
    return f"{attempt} checkpoint {checkpoint_id}"


class BatchHolders(Generic[Content]):
    """The batches of one job. What is released comes back when its last holder has let go."""

    def __init__(self) -> None:
        self._entries: dict[BatchId, _Entry[Content]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(
        self,
        batch_id: BatchId,
        content: Content,
        *,
        producer: ExecutionAttemptId,
        address: Address | None = None,
        holder: str = IN_TRANSIT,
    ) -> None:
        """Take in a batch, with its first holder."""
        assert batch_id not in self._entries, f"two batches are called {batch_id}"
        self._entries[batch_id] = _Entry(content=content, producer=producer, address=address, holders={holder})

    def claim(self, batch_id: BatchId, reader: str) -> Content:
        """The content of a batch, held by `reader` from now on in place of its address; a kept one stays kept, too.

        Raises:
            UnknownBatchError: the batch was released.
        """
        entry = self._entry(batch_id)
        entry.holders.discard(IN_TRANSIT)
        entry.holders.add(reader)
        return entry.content

    def content(self, batch_id: BatchId) -> Content:
        """The content of a batch that the caller holds already. Raises `UnknownBatchError` where it was released."""
        return self._entry(batch_id).content

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        """Add a holder. Raises `UnknownBatchError` where one of the batches was released."""
        for batch_id in batch_ids:
            self._entry(batch_id).holders.add(holder)

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> dict[BatchId, Content]:
        """Let go of batches; nothing happens to those that are gone or are not held by `holder`."""
        return self._release(batch_ids, lambda _: {holder})

    def release_held_by(self, holder: str) -> dict[BatchId, Content]:
        """Let go of everything that one holder holds."""
        return self._release(list(self._entries), lambda _: {holder})

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> dict[BatchId, Content]:
        """The attempt that reads `addresses` has ended.

        Let go of what it holds, of what is on its way to it, and where it was cancelled of what it has made, too.
        """

        def let_go(entry: _Entry[Content]) -> set[str]:
            held = {holder for holder in entry.holders if holder == attempt or holder.startswith(f"{attempt} ")}
            if entry.address in addresses:
                held.add(IN_TRANSIT)
            if is_cancelled and entry.producer == attempt:
                held |= {IN_TRANSIT, KEPT}
            return held

        return self._release(list(self._entries), let_go)

    def release_produced(self, producer: ExecutionAttemptId) -> dict[BatchId, Content]:
        """Let go of what an attempt has made, which another one makes again."""
        return self._release(
            list(self._entries), lambda entry: {IN_TRANSIT, KEPT} if entry.producer == producer else set()
        )

    def release_partitions(self, partitions: frozenset[ResultPartitionId]) -> dict[BatchId, Content]:
        """Let go of what was kept in these partitions."""

        def kept(entry: _Entry[Content]) -> set[str]:
            return {KEPT} if entry.address is not None and entry.address.partition in partitions else set()

        return self._release(list(self._entries), kept)

    def release_all(self) -> dict[BatchId, Content]:
        """Let go of every batch, whatever holds it."""
        return self._release(list(self._entries), lambda entry: set(entry.holders))

    def contents(self) -> list[tuple[Address | None, Content]]:
        """The batches that are held, and the places where they are read."""
        return [(entry.address, entry.content) for entry in self._entries.values()]

    def holders(self) -> Mapping[BatchId, frozenset[str]]:
        """The holders of each batch, for messages and tests."""
        return {batch_id: frozenset(entry.holders) for batch_id, entry in self._entries.items()}

    def _entry(self, batch_id: BatchId) -> _Entry[Content]:
        entry = self._entries.get(batch_id)
        if entry is None:
            raise UnknownBatchError(f"batch {batch_id} was released, or belongs to another process")
        return entry

    def _release(
        self, batch_ids: Iterable[BatchId], let_go: Callable[[_Entry[Content]], set[str]]
    ) -> dict[BatchId, Content]:
        gone: dict[BatchId, Content] = {}
        for batch_id in batch_ids:
            entry = self._entries.get(batch_id)
            if entry is None or not entry.holders & (released := let_go(entry)):
                continue
            entry.holders -= released
            if not entry.holders:
                gone[batch_id] = self._entries.pop(batch_id).content
        return gone
