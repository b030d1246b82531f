"""KeyedStream: the rows of a stream by key, to be aggregated, processed with state, cut into windows or joined."""

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
from flykka.api.streams.transformation import listed
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
    """The rows of a stream, brought together by key.

    What follows at once, a window or a stateless operator, has all rows of a key in the same subtask.
    """

    _foreign_names = ("keyed_stream", "every_stream")
    _next_step = (
        "preview() shows first rows; aggregate(...) computes per key, window(...).aggregate(...) per key and window"
    )

    def process(self, function: KeyedProcessFunction | ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row, with the state and the timers of its key: rows of the columns `output`.

        As `process` of a stream without keys; and a copy of the function is opened to learn of its states.

        Raises:
            ProgramError: `function` is none of these functions.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        if not isinstance(function, KeyedProcessFunction):
            return super().process(function, output)
        return DataStream(operators.keyed_process(self.flow, function, output))

    def aggregate(self, *columns: Column) -> DataStream:
        """Compute running aggregates of each key, without windows: the keys, then these aggregates.

        Every batch emits one row for each key that it has, with the aggregates of all rows so far, as Flink's keyed
        aggregations do. So a key comes again and again, and its newest row is the one that holds: they are upserts by
        the keys, as `flykka plan` says. What is kept of the rows stays for as long as the job lives, and is part of its
        checkpoints. The stream has no event time.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is no aggregate, does not fit this stream, or is not put together from counts,
                sums, minima, maxima and averages; or two columns of the result have one name.
        """
        if not columns:
            raise ProgramError(f"the aggregation after {self.flow} needs at least one column")
        return DataStream(operators.aggregate(self.flow, f"aggregate({listed(*columns)})", columns))

    def count(self, name: str = "count") -> DataStream:
        """Count the rows of each key so far: the keys, then the count in the column `name`. As `aggregate`.

        Raises:
            ProgramError: `name` is no name.
            StreamTypeError: a key is called like the count.
        """
        if not isinstance(name, str) or not name:
            raise ProgramError(f"count after {self.flow} takes the name of its column, not {name!r}")
        return DataStream(operators.aggregate(self.flow, f"count({name})", (counted_rows(name),)))

    def sum(self, *columns: str) -> DataStream:
        """Add up columns for each key so far: the keys, then the sums under the names of the columns. As `aggregate`.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is not there, cannot be summed, or is a key.
        """
        return DataStream(operators.aggregate_columns(self.flow, "sum", columns))

    def min(self, *columns: str) -> DataStream:
        """The least value of columns for each key so far, as `sum`."""
        return DataStream(operators.aggregate_columns(self.flow, "min", columns))

    def max(self, *columns: str) -> DataStream:
        """The greatest value of columns for each key so far, as `sum`."""
        return DataStream(operators.aggregate_columns(self.flow, "max", columns))

    def reduce(self, function: ReduceFunction[Row] | Callable[[Row, Row], Row]) -> DataStream:
        """Make one row of all rows of each key so far: `function(reduced, row)` returns the next `reduced`.

        Rows are dicts by the names of their columns, and what is returned has the same columns. The first row of a key
        is `reduced` to itself. Spark's Python workers call the function row by row; what aggregates can say is many
        times faster as `aggregate(...)`. The stream has no event time.

        Raises:
            ProgramError: `function` is none.
            StreamTypeError: it cannot be pickled.
        """
        return DataStream(operators.reduce(self.flow, function))

    def min_by(self, column: str) -> DataStream:
        """The row of each key so far in which a column is least, of several the first.

        A row in which it is null counts only where all rows of the key are so. The stream has no event time.

        Raises:
            ProgramError: `column` is no name.
            StreamTypeError: there is no such column, or its values have no order.
        """
        return DataStream(operators.extreme_rows(self.flow, "min_by", column, is_greatest=False))

    def max_by(self, column: str) -> DataStream:
        """The row of each key so far in which a column is greatest, as `min_by`. NaN is the greatest number."""
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
        """Call `function(rows, state)` for all rows of a batch at once; it returns its output, and the new state.

        `rows` are those of all keys of the batch, those of a key together and in the order in which they came, beside
        the key columns where these are no columns of the rows. `state` has a row for each of these keys: the keys by
        their names, then the columns `state`, such as `"n bigint, last timestamp"`, which are null for a key without
        state. Both are `pyarrow.Table`s, or with `frames="pandas"` frames of pandas, as `map_in_pandas` has them; what
        is returned may be either, or None for no rows.

        The output has the columns `output`. The new state has those of the state that was given. Keys that it leaves
        out keep theirs, and a key whose state is null in all columns has none from then on.

        With timers `timer` is the column of the state, a timestamp, that has the time of each key's timer, or null.
        When the watermark comes to it, `on_timer(state)` is called for the state of all keys whose timers are due, and
        returns output and new state as well. The timer of a key has fired then: unless the new state has a later time,
        it is null.

        A pickled copy of the function is called in Spark's Python workers: what it keeps in itself is in no
        checkpoint. With several subtasks each calls it for its keys. The rows have the event time of this stream where
        they have its column.

        Raises:
            ProgramError: `function` is none.
            StreamTypeError: the state or the output is no columns, a column of the state is called like a key, a key
                has the name of a column that it is not, the timer is no timestamp of the state, or the function cannot
                be pickled.
        """
        program = TableProgram(
            function=function, state=state, output=output, frames=frames, timer=timer, on_timer=on_timer
        )
        return DataStream(operators.process_table(self.flow, program))

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Cut each key's rows into windows.

        They are tumbling or sliding windows or sessions, each of event time or of processing time, `GlobalWindows` with
        a trigger, or what a subclass of `WindowAssigner` assigns.

        Raises:
            ProgramError: `assigner` is none.
            StreamTypeError: windows of event time, and the stream has none, or an operation before has dropped its
                column.
        """
        return WindowedStream(self.flow, windows_of(self.flow, assigner))

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """Cut each key's rows into windows of `size` rows.

        They follow each other; with a `slide` a window of the last `size` rows, or of all where there are fewer, fires
        at every `slide` rows. A window that is not full at the end of the stream does not fire.

        Raises:
            ProgramError: a number is none from 1.
        """
        return WindowedStream(self.flow, count_windows(size, slide))

    def interval_join(self, other: KeyedStream) -> IntervalJoin:
        """Join with another keyed stream: rows of equal keys whose event times are near each other.

        `.between(lower, upper)` says how near, and `.select(*columns)` what is made of two rows that meet.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or one of the two has no event time.
        """
        sides = self._with("interval_join", other)
        sides.check_timed("interval_join")
        return IntervalJoin(sides)

    def regular_join(self, other: KeyedStream) -> RegularJoined:
        """Join with another keyed stream: rows of equal keys meet whenever they come, as in SQL without bounds in time.

        `.select(*columns)` says what is made of two rows that meet. Both sides are kept for ever, or
        `.time_to_live(...)`.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or rows of one of the two take the place of earlier ones.
        """
        sides = self._with("regular_join", other)
        sides.check_program("regular_join")
        for flow in (sides.left, sides.right):
            check_append_only(f"regular_join of {sides}", flow)
        return RegularJoined(sides, RegularJoinSettings())

    def temporal_join(self, versions: KeyedStream) -> TemporalJoined:
        """Join each row with the version of its key that held at its event time, of a keyed stream of versions.

        That is the row of the key with the latest event time that is not later. `.select(*columns)` says what is made
        of a row and its version; `.left_outer()` keeps rows that have none. Of `versions` that can be deleted
        (`changelog.row_kind`), a deletion says that the key has no version from its time on. Rows wait until the
        watermark of both streams has come to their time.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or others than those by which its rows take the place of earlier ones; one
                of the two has no event time; or rows of this one take the place of earlier ones.
        """
        sides = self._with("temporal_join", versions)
        check_versions(sides)
        return TemporalJoined(sides, TemporalJoinSettings())

    def _with(self, verb: str, other: KeyedStream) -> Sides:
        if not isinstance(other, KeyedStream):
            raise StreamTypeError(
                f"{verb} after {self.flow} takes another keyed stream, as key_by(...) gives it, not a"
                f" {type(other).__name__}"
            )
        return Sides(left=self.flow, right=other.flow)
