"""Holders and addresses of batches: the rules by which every data plane retains, frees and addresses rows.

A batch has holders and is freed when the last holder releases it. A new batch is held for its reader, the subpartition
to which it is addressed. The reader claims the batch and releases it when the reading stage has ended. State holds the
batches that it retains, and a snapshot holds the batches that it writes. A BLOCKING partition holds its batches until
the partition is released, however often they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.exchange.channel_selectors import ChannelSelector, channel_selector
from flykka.messages.graph.job_graph import ResultPartitionType, ShipStrategy
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, ResultPartitionId
from flykka.messages.wire.tags import trace_tag

Content = TypeVar("Content")
Draw = Callable[[int], int]

IN_TRANSIT = "in transit"
"""The holder of a batch between its producer and its reader."""
KEPT = "kept in its partition"
"""The holder of a batch of a BLOCKING partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
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
    return f"{attempt} checkpoint {checkpoint_id}"


class BatchHolders(Generic[Content]):
    """The batches of one job and their holders. A release returns the contents of the batches without a holder."""

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
        assert batch_id not in self._entries, f"a batch named {batch_id} exists already"
        self._entries[batch_id] = _Entry(content=content, producer=producer, address=address, holders={holder})

    def claim(self, batch_id: BatchId, reader: str) -> Content:
        """Make `reader` a holder of the batch and return its content. A BLOCKING partition remains a holder, too.

        Raises:
            UnknownBatchError: the batch was released.
        """
        entry = self._entry(batch_id)
        entry.holders.discard(IN_TRANSIT)
        entry.holders.add(reader)
        return entry.content

    def content(self, batch_id: BatchId) -> Content:
        return self._entry(batch_id).content

    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None:
        for batch_id in batch_ids:
            self._entry(batch_id).holders.add(holder)

    def release(self, batch_ids: Iterable[BatchId], holder: str = IN_TRANSIT) -> dict[BatchId, Content]:
        """Release batches. Skips batches that are already freed or that `holder` does not hold."""
        return self._release(batch_ids, lambda _: {holder})

    def release_held_by(self, holder: str) -> dict[BatchId, Content]:
        return self._release(list(self._entries), lambda _: {holder})

    def release_attempt(
        self, attempt: ExecutionAttemptId, addresses: frozenset[Address], *, is_cancelled: bool
    ) -> dict[BatchId, Content]:
        """Release the batches that an ended attempt holds, for itself and its snapshots, and the batches in transit to
        it.

        If the attempt was cancelled, the batches that it has produced are released, too.
        """

        def holders_of(entry: _Entry[Content]) -> set[str]:
            holders = {holder for holder in entry.holders if holder == attempt or holder.startswith(f"{attempt} ")}
            if entry.address in addresses:
                holders.add(IN_TRANSIT)
            if is_cancelled and entry.producer == attempt:
                holders |= {IN_TRANSIT, KEPT}
            return holders

        return self._release(list(self._entries), holders_of)

    def release_produced(self, producer: ExecutionAttemptId) -> dict[BatchId, Content]:
        return self._release(
            list(self._entries), lambda entry: {IN_TRANSIT, KEPT} if entry.producer == producer else set()
        )

    def release_partitions(self, partitions: frozenset[ResultPartitionId]) -> dict[BatchId, Content]:
        def released(entry: _Entry[Content]) -> set[str]:
            return {KEPT} if entry.address is not None and entry.address.partition in partitions else set()

        return self._release(list(self._entries), released)

    def release_all(self) -> dict[BatchId, Content]:
        return self._release(list(self._entries), lambda entry: set(entry.holders))

    def contents(self) -> list[tuple[Address | None, Content]]:
        return [(entry.address, entry.content) for entry in self._entries.values()]

    def holders(self) -> Mapping[BatchId, frozenset[str]]:
        return {batch_id: frozenset(entry.holders) for batch_id, entry in self._entries.items()}

    def _entry(self, batch_id: BatchId) -> _Entry[Content]:
        entry = self._entries.get(batch_id)
        if entry is None:
            raise UnknownBatchError(f"batch {batch_id} was released, or belongs to another process")
        return entry

    def _release(
        self, batch_ids: Iterable[BatchId], holders_of: Callable[[_Entry[Content]], set[str]]
    ) -> dict[BatchId, Content]:
        freed: dict[BatchId, Content] = {}
        for batch_id in batch_ids:
            entry = self._entries.get(batch_id)
            if entry is None or not entry.holders & (own := holders_of(entry)):
                continue
            entry.holders -= own
            if not entry.holders:
                freed[batch_id] = self._entries.pop(batch_id).content
        return freed


class OutputRoutes:
    """Routes the batches of one attempt's outputs. `seeded` creates a random source for shuffled outputs."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, seeded: Callable[[str], Draw]) -> None:
        self._attempt = descriptor.attempt
        self._selectors: dict[int, ChannelSelector] = {
            output.output: channel_selector(
                output.ship_strategy,
                output.subpartitions,
                first=descriptor.subtask,
                draw=seeded(output.partition_id),
            )
            for output in descriptor.outputs
            if not is_split(output)
        }

    def receivers(self, output: ResultPartitionDescriptor) -> range:
        return self._selectors[output.output]()

    def batch_id(self, stage: int, output: ResultPartitionDescriptor, subpartition: int) -> BatchId:
        return BatchId(f"{self._attempt}/{stage}/{output.output}.{subpartition}")


def is_split(output: ResultPartitionDescriptor) -> bool:
    return output.ship_strategy is ShipStrategy.HASH and output.subpartitions > 1


def is_read_once(output: ResultPartitionDescriptor) -> bool:
    """Return True if exactly one stage reads each batch, unchanged. Keyed batches may become state, so they do
    not count.
    """
    goes_to_one = output.ship_strategy is not ShipStrategy.BROADCAST or output.subpartitions == 1
    is_keyed = output.ship_strategy is ShipStrategy.HASH
    return goes_to_one and not is_keyed and output.partition_type is not ResultPartitionType.BLOCKING


def first_holder(output: ResultPartitionDescriptor) -> str:
    return KEPT if output.partition_type is ResultPartitionType.BLOCKING else IN_TRANSIT


def address(output: ResultPartitionDescriptor, subpartition: int) -> Address:
    return Address(partition=output.partition_id, subpartition=subpartition)


def input_addresses(descriptor: TaskDeploymentDescriptor) -> frozenset[Address]:
    """Return the addresses whose batches are released when the attempt that reads them ends.

    Approximate partitions are excluded: their producers continue with the next reader, and release lost batches.
    """
    return frozenset(
        Address(partition=channel.partition_id, subpartition=channel.subpartition)
        for gate in descriptor.inputs
        if gate.consumed_partition_type is not ResultPartitionType.PIPELINED_APPROXIMATE
        for channel in gate.channels
    )
