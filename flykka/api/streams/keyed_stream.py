"""KeyedStream: a stream partitioned by key, to be aggregated, processed with state, windowed or joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from flykka.api.streams import operators
from flykka.api.streams.data_stream import DataStream, Stream
from flykka.api.streams.join_operators import (
    RegularJoinSettings,
    Sides,
    TemporalJoinSettings,
    check_append_only,
    check_versions,
)
from flykka.api.streams.joins import IntervalJoin, RegularJoined, TemporalJoined
from flykka.api.streams.transformation import format_columns
from flykka.api.streams.window_operators import count_windows, windows_of
from flykka.api.streams.windowed_stream import WindowedStream
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.operators.keyed_rows import TableProgram
from flykka.spark_bridge.program.functions import counted_rows

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.aggregate_function import ReduceFunction
    from flykka.spark_bridge.functions.process_function import ProcessFunction
    from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
    from flykka.spark_bridge.program.prototype import Column, StructType
    from flykka.spark_bridge.worker.table_function import TableFunction

Row = dict[str, Any]


class KeyedStream(Stream):
    """A stream partitioned by key.

    All rows of a key go to the same subtask of the next operator.
    """

    _hint_tables = ("keyed_stream", "every_stream")
    _next_step = (
        "preview() shows first rows; aggregate(...) computes per key, window(...).aggregate(...) per key and window"
    )

    def process(self, function: KeyedProcessFunction | ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row, with state and timers of its key; it emits rows with the columns `output`.

        In all other respects this works as `process` of a stream without keys. A copy of the function is opened to find
        its states.

        Raises:
            ProgramError: `function` has another type.
            StreamTypeError: `output` is invalid, or the function cannot be pickled.
        """
        if not isinstance(function, KeyedProcessFunction):
            return super().process(function, output)
        return DataStream(operators.keyed_process(self.flow, function, output))

    def aggregate(self, *columns: Column) -> DataStream:
        """Compute running aggregates of each key, without windows; results have the keys, then these aggregates.

        As in Flink, every batch emits one row for each key that it contains, with the aggregates of all rows so far.
        The result is therefore a changelog of upserts by the keys, as `flykka plan` shows. The state of the aggregates
        never expires, and is part of the job's checkpoints. The result has no event time.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is not an aggregate, does not fit this stream, or is not composed of counts, sums,
                minima, maxima and averages; or two result columns have the same name.
        """
        if not columns:
            raise ProgramError(f"the aggregation after {self.flow} needs at least one column")
        return DataStream(operators.aggregate(self.flow, f"aggregate({format_columns(*columns)})", columns))

    def count(self, name: str = "count") -> DataStream:
        """Count the rows of each key so far, in the column `name` after the keys. See `aggregate`.

        Raises:
            ProgramError: `name` is not a name.
            StreamTypeError: a key has the same name as the count.
        """
        if not isinstance(name, str) or not name:
            raise ProgramError(f"count after {self.flow} takes the name of its column, not {name!r}")
        return DataStream(operators.aggregate(self.flow, f"count({name})", (counted_rows(name),)))

    def sum(self, *columns: str) -> DataStream:
        """Add up columns per key so far, under the same names after the keys. See `aggregate`.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not exist, cannot be summed, or is a key.
        """
        return DataStream(operators.aggregate_columns(self.flow, "sum", columns))

    def min(self, *columns: str) -> DataStream:
        """Compute the minimum of columns per key so far; see `sum`."""
        return DataStream(operators.aggregate_columns(self.flow, "min", columns))

    def max(self, *columns: str) -> DataStream:
        """Compute the maximum of columns per key so far; see `sum`."""
        return DataStream(operators.aggregate_columns(self.flow, "max", columns))

    def reduce(self, function: ReduceFunction[Row] | Callable[[Row, Row], Row]) -> DataStream:
        """Reduce all rows of each key so far to one row: `function(reduced, row)` returns the next `reduced`.

        Rows are dicts by column name, and the result has the same columns. The first row of a key is the initial
        `reduced`. Spark's Python workers call the function row by row; where `aggregate(...)` suffices, it is many
        times faster. The result has no event time.

        Raises:
            ProgramError: `function` is not a function.
            StreamTypeError: the function cannot be pickled.
        """
        return DataStream(operators.reduce(self.flow, function))

    def min_by(self, column: str) -> DataStream:
        """Return the row of each key so far with the minimum of a column; the first such row if there are several.

        Nulls are ignored unless all rows of the key are null. The result has no event time.

        Raises:
            ProgramError: `column` is not a name.
            StreamTypeError: there is no such column, or its values have no order.
        """
        return DataStream(operators.extreme_rows(self.flow, "min_by", column, is_greatest=False))

    def max_by(self, column: str) -> DataStream:
        """Return the row of each key so far with the maximum of a column; see `min_by`. NaN is the greatest number."""
        return DataStream(operators.extreme_rows(self.flow, "max_by", column, is_greatest=True))

    def process_table(
        self,
        function: TableFunction,
        *,
        state: StructType | str,
        output: StructType | str,
        frames: Literal["arrow", "pandas"] = "arrow",
        timer: str | None = None,
        on_timer: TableFunction | None = None,
    ) -> DataStream:
        """Call `function(rows, state)` once per batch for all its rows; it returns the output and the new state.

        `rows` are the rows of all keys in the batch, grouped by key, in order of arrival within a key. Key columns are
        added if the rows do not contain them. `state` has one row for each of these keys: the key columns, then the
        columns `state`, for example `"n bigint, last timestamp"`, which are null for a key without state. Both are
        `pyarrow.Table`s, or with `frames="pandas"` pandas DataFrames with the types of `map_in_pandas`. The function
        may return either type, or None for no rows.

        The output has the columns `output`. The new state has the same columns as the state. Keys that the new state
        does not contain keep their state, and a key whose state columns are all null loses its state.

        For timers, `timer` names a timestamp column of the state that contains the time of each key's timer, or null.
        When the watermark reaches that time, `on_timer(state)` is called with the state of all keys whose timers are
        due. It also returns output and new state. The timer is then reset to null, unless the new state has a later
        time.

        A pickled copy of the function is called in Spark's Python workers, so attributes that it sets are not part of
        checkpoints. Each subtask calls it for its own keys. The rows have the event time of this stream if they contain
        its column.

        Raises:
            ProgramError: `function` is not a function.
            StreamTypeError: `state` or `output` is invalid, a state column has the name of a key, a key has the name
                of another column, the timer is not a timestamp of the state, or the function cannot be pickled.
        """
        program = TableProgram(
            function=function, state=state, output=output, frames=frames, timer=timer, on_timer=on_timer
        )
        return DataStream(operators.process_table(self.flow, program))

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Assign the rows of each key to windows.

        The windows are tumbling, sliding or session windows of event time or processing time, `GlobalWindows` with a
        trigger, or windows of a subclass of `WindowAssigner`.

        Raises:
            ProgramError: `assigner` is not a window assigner.
            StreamTypeError: event-time windows on a stream without event time, or whose event-time column was
                dropped.
        """
        return WindowedStream(self.flow, windows_of(self.flow, assigner))

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """Assign the rows of each key to windows of `size` rows.

        Without `slide`, each window begins after the last row of the previous window. With `slide`, a window of the
        last `size` rows, or fewer at the start, fires every `slide` rows. A window that is not full at the end of the
        stream does not fire.

        Raises:
            ProgramError: a number is below 1.
        """
        return WindowedStream(self.flow, count_windows(size, slide))

    def interval_join(self, other: KeyedStream) -> IntervalJoin:
        """Join with another keyed stream: rows with equal keys match if their event times are close.

        Continue with `.between(lower, upper)` for the bounds and `.select(*columns)` for the output.

        Raises:
            ProgramError: `other` belongs to another environment or job.
            StreamTypeError: `other` is not keyed, or one of the streams has no event time.
        """
        sides = self._sides_with("interval_join", other)
        sides.check_timed("interval_join")
        return IntervalJoin(sides)

    def regular_join(self, other: KeyedStream) -> RegularJoined:
        """Join with another keyed stream: rows with equal keys match whenever they arrive, as in a regular join of SQL.

        Continue with `.select(*columns)` for the output. Both sides are stored forever, unless `.time_to_live(...)` is
        set.

        Raises:
            ProgramError: `other` belongs to another environment or job.
            StreamTypeError: `other` is not keyed, or one of the streams is a changelog of upserts.
        """
        sides = self._sides_with("regular_join", other)
        sides.check_program("regular_join")
        for flow in (sides.left, sides.right):
            check_append_only(f"regular_join of {sides}", flow)
        return RegularJoined(sides, RegularJoinSettings())

    def temporal_join(self, versions: KeyedStream) -> TemporalJoined:
        """Join each row with the version of its key in another keyed stream that was valid at the row's event time.

        This version is the row with the same key and the latest event time that is not after the joined row's event
        time. Continue with `.select(*columns)` for the output; `.left_outer()` also emits rows without a version. If
        `versions` contains deletes (`changelog.row_kind`), the key has no version from the time of the delete on. Rows
        wait until the watermark of both streams has reached their time.

        Raises:
            ProgramError: `versions` belongs to another environment or job.
            StreamTypeError: `versions` is not keyed, or not by the keys of its changelog; a stream has no event time;
                or this stream is a changelog of upserts.
        """
        sides = self._sides_with("temporal_join", versions)
        check_versions(sides)
        return TemporalJoined(sides, TemporalJoinSettings())

    def _sides_with(self, verb: str, other: KeyedStream) -> Sides:
        if not isinstance(other, KeyedStream):
            raise StreamTypeError(
                f"{verb} after {self.flow} takes another keyed stream, as key_by(...) gives it, not a"
                f" {type(other).__name__}"
            )
        return Sides(left=self.flow, right=other.flow)
