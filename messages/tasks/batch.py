"""A batch of rows, by name. The rows stay in the data plane; messages carry these."""

from __future__ import annotations

from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.message import Value, value


@value("batch.ref")
class BatchRef(Value):
    """An immutable batch for one subpartition. Event times in ms since the epoch, None without an event-time column.

    `size_bytes` is an estimate where the data plane does not know better.
    """

    batch_id: BatchId
    rows: int
    size_bytes: int
    event_time_min: int | None = None
    event_time_max: int | None = None
    subpartition: int = 0
