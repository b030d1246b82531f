"""Checks that no batch is read, sent or held after it was released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.messages.attempt.commands import HoldBatches, ProcessBatch, ReleaseBatches
from flykka.messages.tasks.exchange import BatchRef, BufferResponse
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnSent, Violation
from flykka.runtime.trace.records import Turn

_REMEMBERED = 10_000


class BatchMonitor(ConversationMonitor):
    """Observes the messages of Tasks about batches. Only the data plane knows whether all batches were released."""

    name = "batches"

    def __init__(self) -> None:
        super().__init__()
        self._released: dict[BatchId, int] = {}

    def sent(self) -> Mapping[type, OnSent]:
        return {
            ReleaseBatches: self._on_released,
            BufferResponse: self._on_sent,
            ProcessBatch: self._on_read,
            HoldBatches: self._on_held,
        }

    def _on_released(self, turn: Turn, _to: Ref, message: ReleaseBatches) -> None:
        # Releases by other holders, such as checkpoints, are ignored, because the batch may still be read.
        for batch_id in (message.batch_ids or ()) if message.holder == IN_TRANSIT else ():
            self._released[batch_id] = turn.sequence
        while len(self._released) > _REMEMBERED:
            del self._released[next(iter(self._released))]

    def _on_sent(self, turn: Turn, _to: Ref, message: BufferResponse) -> Iterator[Violation]:
        if isinstance(message.buffer, BatchRef):
            yield from self._use(turn, message.buffer.batch_id, "is sent")

    def _on_read(self, turn: Turn, _to: Ref, message: ProcessBatch) -> Iterator[Violation]:
        for batch in message.batches:
            yield from self._use(turn, batch.batch_id, "is read")

    def _on_held(self, turn: Turn, _to: Ref, message: HoldBatches) -> Iterator[Violation]:
        for batch_id in message.batch_ids:
            yield from self._use(turn, batch_id, "is held for a checkpoint")

    def _use(self, turn: Turn, batch_id: BatchId, what: str) -> Iterator[Violation]:
        released_in = self._released.get(batch_id)
        if released_in is not None:
            yield self.violation(turn, f"{batch_id} {what}, but was released in turn {released_in}")
