"""CollectSink: the first rows of every batch, as texts, for one who watches a query (Flink's CollectSinkOperator)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.materialise import materialise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TextRow = tuple[str | None, ...]
Receive = Callable[[Sequence[TextRow], int], None]
"""Takes rows of a batch, and the number that were left out of it."""


@dataclass(frozen=True, slots=True)
class CollectSink(Sink):
    """Gives no more than `limit` rows of every batch to `receive`, as they come; no more than these reach the driver.

    It runs in the task of what it reads, so the batches of a key come in their order. After a restart rows come again.
    """

    receive: Receive
    limit: int

    @property
    def publishes_per_checkpoint(self) -> bool:
        return False

    @property
    def format(self) -> str:
        return "collect"

    def writer(self, context: SinkContext) -> CollectWriter:
        return CollectWriter(self, context)

    def __str__(self) -> str:
        return self.format


class CollectWriter(SinkWriter["DataFrame"]):
    """Collects in one attempt."""

    def __init__(self, sink: CollectSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context

    def stage(self, rows: DataFrame) -> Staged:
        """Give the first rows of a batch. One Spark job, and a small one for what is given."""
        made = materialise(self._context.scope, rows, {})
        try:
            if made.rows:
                self._context.scope.check()
                texts = [F.col(quoted(name)).cast("string") for name in made.frame.columns]
                first = [tuple(row) for row in made.frame.select(*texts).limit(self._sink.limit).collect()]
                self._sink.receive(first, made.rows - len(first))
        finally:
            made.blocks.free()
        return Staged(rows=made.rows)
