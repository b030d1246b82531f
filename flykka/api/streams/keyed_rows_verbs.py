"""The verbs of a keyed stream that keep rows or tables for each key, and `drop_duplicates`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from flykka.api.streams.program import tried
from flykka.api.streams.stateless_verbs import listed, named
from flykka.api.streams.stream_type import StreamType
from flykka.errors import ProgramError, StreamTypeError
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.aggregate_function import ReduceFunction
from flykka.spark_bridge.operators.keyed_rows import (
    TableProgram,
    drop_duplicates_code,
    extreme_rows_code,
    process_table_code,
    reduced_rows_code,
)

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream, KeyedStream
    from flykka.spark_bridge.operators.keyed_rows_code import KeptRowsCode, KeyedRowsCode
    from flykka.spark_bridge.program.prototype import Column, StructType
    from flykka.spark_bridge.worker.table_function import TableFunction

Row = dict[str, Any]


class _KeyedRows(ABC):
    """Keyed rows, and how an operator of them is added."""

    _keys: tuple[Column | str, ...]
    _type: StreamType

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _at_head(self, name: str, code: KeyedRowsCode, row_type: StreamType) -> DataStream:
        """Add the operator of this name, which stands at the head of a chain, and emits rows of a type."""


class ProcessTableVerb(_KeyedRows):
    """The verb that calls a function with tables."""

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
        for called, tables in ((function, "two tables, rows and state"), (on_timer or function, "a table, state")):
            if not callable(called):
                raise ProgramError(f"process_table after {self._origins} takes a function of {tables}, not {called!r}")
        said = TableProgram(
            function=function, state=state, output=output, frames=frames, timer=timer, on_timer=on_timer
        )
        name, row_type, keys = f"process_table({named(function)})", self._type, self._keys
        prototype, code = tried(name, lambda: process_table_code(row_type.prototype, keys, said))
        return self._at_head(name, code, row_type.of_rows(prototype))


class KeptRowVerbs(_KeyedRows):
    """Running results that are whole rows. Every batch emits one for each key that it has, as `aggregate` does."""

    def reduce(self, function: ReduceFunction[Row] | Callable[[Row, Row], Row]) -> DataStream:
        """Make one row of all rows of each key so far: `function(reduced, row)` returns the next `reduced`.

        Rows are dicts by the names of their columns, and what is returned has the same columns. The first row of a key
        is `reduced` to itself. Spark's Python workers call the function row by row; what aggregates can say is many
        times faster as `aggregate(...)`. The stream has no event time.

        Raises:
            ProgramError: `function` is none.
            StreamTypeError: it cannot be pickled.
        """
        if not callable(function) and not isinstance(function, ReduceFunction):
            raise ProgramError(
                f"reduce after {self._origins} takes a function of two rows, or a ReduceFunction, not {function!r}"
            )
        prototype, keys = self._type.prototype, self._keys
        shown = type(function).__name__ if isinstance(function, ReduceFunction) else named(function)
        return self._kept(f"reduce({shown})", lambda: reduced_rows_code(prototype, keys, function))

    def min_by(self, column: str) -> DataStream:
        """The row of each key so far in which a column is least, of several the first.

        A row in which it is null counts only where all rows of the key are so. The stream has no event time.

        Raises:
            ProgramError: `column` is no name.
            StreamTypeError: there is no such column, or its values have no order.
        """
        return self._extreme("min_by", column, is_greatest=False)

    def max_by(self, column: str) -> DataStream:
        """The row of each key so far in which a column is greatest, as `min_by`. NaN is the greatest number."""
        return self._extreme("max_by", column, is_greatest=True)

    def _extreme(self, verb: str, column: str, *, is_greatest: bool) -> DataStream:
        if not isinstance(column, str) or not column:
            raise ProgramError(f"{verb} after {self._origins} takes the name of a column, not {column!r}")
        prototype, keys = self._type.prototype, self._keys
        return self._kept(
            f"{verb}({column})", lambda: extreme_rows_code(prototype, keys, column, is_greatest=is_greatest)
        )

    def _kept(self, name: str, make: Callable[[], KeptRowsCode]) -> DataStream:
        return self._at_head(name, tried(name, make), StreamType(prototype=self._type.prototype, event_time=None))


class DropDuplicatesVerb(ABC):
    """The verb of a stream without keys that keeps one row of those that are alike."""

    _type: StreamType

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def key_by(self, *columns: Column | str) -> KeyedStream:
        """Bring together the rows that agree in these columns."""

    def drop_duplicates(self, columns: str | Sequence[str] | None = None, within: Duration | None = None) -> DataStream:
        """Keep the first row that comes of those that agree in some columns, or (None) in all; emitted at once.

        Without `within` a row is remembered for ever: the state grows with every new one. With it, such as `"1 day"`,
        rows are compared by event time: a row is dropped when it is less than this later than the one that was kept, or
        earlier. What was kept is forgotten when the watermark is `within` behind it; so rows that come behind the
        watermark are dropped, and counted as late, as by Spark's dropDuplicatesWithinWatermark.

        Raises:
            ProgramError: no column is given, or `within` is no length of time above zero.
            StreamTypeError: there is no such column, or with `within` the stream has no event time.
        """
        chosen = self._type.prototype.columns if columns is None else [columns] if isinstance(columns, str) else columns
        if isinstance(chosen, str) or not chosen or not all(isinstance(name, str) for name in chosen):
            raise ProgramError(
                f"drop_duplicates after {self._origins} takes names of columns, such as ['id'], not {columns!r}"
            )
        name = f"drop_duplicates({listed(*chosen)}{'' if within is None else f', within={within}'})"
        try:
            within_ms = None if within is None else positive_duration_ms(within, "within")
        except DurationError as wrong:
            raise ProgramError(f"{name} after {self._origins}: {wrong}") from None
        row_type = self._type
        if within_ms is not None and row_type.event_time is None:
            raise StreamTypeError(
                f"{name}: {self._origins} gives no event time to compare rows by: its source has no timestamp column or"
                " no watermarks, or an operation has dropped or renamed the column"
            )
        code = tried(
            name, lambda: drop_duplicates_code(row_type.prototype, tuple(chosen), row_type.event_time, within_ms)
        )
        return self.key_by(*code.keys)._at_head(name, code, row_type)

    dropDuplicates = drop_duplicates
