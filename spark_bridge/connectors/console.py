"""Sinks that show a batch's first rows at once: ConsoleSink prints them, CollectSink passes them to a function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.materialise import materialise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = 20
_LONGEST = 20


@dataclass(frozen=True, slots=True)
class ConsoleSink(Sink):
    """Prints the first `limit` rows of every batch, like `DataFrame.show`. No other rows are sent to the driver.

    It is meant for looking at a stream: rows are printed when they arrive, without waiting for a checkpoint. After a
    restart, rows after the last checkpoint are printed again, and batches are numbered from 1 again. `truncate` cuts
    long values: True at 20 characters, False not at all, a number at that many characters.
    """

    limit: int = _ROWS
    truncate: bool | int = True

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise ValueError(f"the limit of a ConsoleSink must be a whole number from 1, not {self.limit!r}")
        if not isinstance(self.truncate, int) or self.truncate < 0:
            raise ValueError(
                f"truncate of a ConsoleSink must be True, False or a number of characters, not {self.truncate!r}"
            )

    @property
    def publishes_per_checkpoint(self) -> bool:
        return False

    @property
    def format(self) -> str:
        return "console"

    def writer(self, context: SinkContext) -> ConsoleWriter:
        return ConsoleWriter(self, context)

    def __str__(self) -> str:
        return self.format


class ShowingWriter(SinkWriter["DataFrame"]):
    """Shows the first rows of nonempty batches, with one Spark job, and a small second job for the shown rows."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context

    def stage(self, rows: DataFrame) -> Staged:
        materialised = materialise(self._context.scope, rows, {})
        try:
            if materialised.rows:
                self._context.scope.check()
                self.show(materialised.frame, materialised.rows)
        finally:
            materialised.blocks.free()
        return Staged(rows=materialised.rows)

    @abstractmethod
    def show(self, rows: DataFrame, number_of_rows: int) -> None: ...


class ConsoleWriter(ShowingWriter):
    """Concurrent batches are numbered in print order."""

    def __init__(self, sink: ConsoleSink, context: SinkContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._numbers = count(1)
        self._lock = Lock()

    def show(self, rows: DataFrame, number_of_rows: int) -> None:
        longest = _LONGEST if self._sink.truncate is True else int(self._sink.truncate)
        table = rows._jdf.showString(self._sink.limit, longest, False)
        subtask = f" ({self._context.subtask + 1}/{self._context.parallelism})" if self._context.parallelism > 1 else ""
        noun = "row" if number_of_rows == 1 else "rows"
        with self._lock:
            heading = f"{self._context.name}{subtask}, batch {next(self._numbers)}: {number_of_rows:,} {noun}"
            # A single call, because subtasks print concurrently.
            print(f"{heading}\n{table.rstrip()}\n", flush=True)


TextRow = tuple[str | None, ...]
Receive = Callable[[Sequence[TextRow], int], None]


@dataclass(frozen=True, slots=True)
class CollectSink(Sink):
    """Passes at most `limit` rows of every batch to `receive`, as texts. No other rows are sent to the driver.

    Like Flink's CollectSinkOperator it runs in the task whose rows it reads, so the batches of a key arrive in order.
    After a restart, rows may be passed again.
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


class CollectWriter(ShowingWriter):
    def __init__(self, sink: CollectSink, context: SinkContext) -> None:
        super().__init__(context)
        self._sink = sink

    def show(self, rows: DataFrame, number_of_rows: int) -> None:
        texts = [F.col(quoted(name)).cast("string") for name in rows.columns]
        first = [tuple(row) for row in rows.select(*texts).limit(self._sink.limit).collect()]
        self._sink.receive(first, number_of_rows - len(first))
