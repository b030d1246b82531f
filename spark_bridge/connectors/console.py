"""ConsoleSink: the first rows of every batch, printed as they come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.materialise import materialise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = 20
_LONGEST = 20


@dataclass(frozen=True, slots=True)
class ConsoleSink(Sink):
    """Prints the first `limit` rows of every batch, as `DataFrame.show` does; no more than these reach the driver.

    For looking at a stream, not for keeping it: rows are printed as they come, without waiting for a checkpoint, and
    after a restart what came after the last checkpoint is printed again, in batches that are numbered from 1 again.
    `truncate` cuts long values: True at 20 characters, False not at all, or at that many.
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
        """False: rows are printed as they come."""
        return False

    @property
    def format(self) -> str:
        """The format: lines on the console."""
        return "console"

    def writer(self, context: SinkContext) -> ConsoleWriter:
        """Make the writer of one attempt, which prints."""
        return ConsoleWriter(self, context)

    def __str__(self) -> str:
        return self.format


class ConsoleWriter(SinkWriter["DataFrame"]):
    """Prints in one attempt. Batches that are at work at once are numbered as they are printed."""

    def __init__(self, sink: ConsoleSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._numbers = count(1)
        self._lock = Lock()

    def stage(self, rows: DataFrame) -> Staged:
        """Print the first rows of a batch, if it has any. One Spark job, and a small one for what is printed."""
        made = materialise(self._context.scope, rows, {})
        try:
            if made.rows:
                self._print(made.frame, made.rows)
        finally:
            made.blocks.free()
        return Staged(rows=made.rows)

    def _print(self, rows: DataFrame, number_of_rows: int) -> None:
        self._context.scope.check()
        longest = _LONGEST if self._sink.truncate is True else int(self._sink.truncate)
        table = rows._jdf.showString(self._sink.limit, longest, False)
        subtask = f" ({self._context.subtask + 1}/{self._context.parallelism})" if self._context.parallelism > 1 else ""
        noun = "row" if number_of_rows == 1 else "rows"
        with self._lock:
            heading = f"{self._context.name}{subtask}, batch {next(self._numbers)}: {number_of_rows:,} {noun}"
            # In one piece: subtasks print side by side.
            print(f"{heading}\n{table.rstrip()}\n", flush=True)
