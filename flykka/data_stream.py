"""A program's streams, by Flink's and PyFlink's names: DataStream, KeyedStream, WindowedStream.

A stream of flykka is a sequence of DataFrames, so an operation is a function of DataFrames, or columns of one. Each is
tried at once on the stream's prototype, an empty DataFrame with its schema: what does not fit is refused on the user's
own line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.job_graph import OperatorKind, ShipStrategy
from flykka.operator_settings import DataStreamSink, OperatorSettings
from flykka.program import Program, tried
from flykka.spark_bridge.aggregates import analyze
from flykka.spark_bridge.code import KeyByCode, LocalWindowCode, SinkCode, TransformCode, WindowCode
from flykka.spark_bridge.prototype import transformed, windowed
from flykka.transformation import Input, Transformation, default_uid

if TYPE_CHECKING:
    from flykka.spark_bridge.prototype import Column, DataFrame
    from flykka.spark_bridge.sinks.file_sink import FileSink
    from flykka.windows import TumblingEventTimeWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamType:
    """What is known of a stream's rows: a prototype of them, and which column is their event time."""

    prototype: DataFrame
    event_time: str | None


class _Stream:
    """What can be done with rows, keyed or not."""

    def __init__(self, program: Program, source: Input, row_type: StreamType) -> None:
        self._program = program
        self._input = source
        self._type = row_type

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Apply a function to every batch: rows in, rows out, with no memory of other batches.

        Raises:
            StreamTypeError: the function does not fit the columns of this stream, or returns no DataFrame.
        """
        return self._then(getattr(function, "__name__", type(function).__name__), function)

    def select(self, *columns: Column | str) -> DataStream:
        """Keep or compute these columns. Raises `StreamTypeError` as `transform` does."""
        return self._then(f"select({_listed(columns)})", lambda rows: rows.select(*columns))

    def where(self, condition: Column | str) -> DataStream:
        """Keep the rows for which the condition is true. Raises `StreamTypeError` as `transform` does."""
        return self._then(f"where({_listed((condition,))})", lambda rows: rows.where(condition))

    def sink_to(self, sink: FileSink) -> DataStreamSink:
        """Write the rows to a sink."""
        made = Transformation(
            kind=OperatorKind.SINK,
            position=self._program.next_position,
            name=str(sink),
            code=SinkCode(sink=sink),
            inputs=(self._input,),
            publishes_per_checkpoint=sink.publishes_per_checkpoint,
        )
        self._program.add(made)
        return DataStreamSink(self._program, made)

    def _then(self, description: str, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        made = Transformation(
            kind=OperatorKind.STATELESS,
            position=self._program.next_position,
            name=description,
            code=TransformCode(function=function),
            inputs=(self._input,),
        )
        prototype = tried(made, lambda: transformed(self._type.prototype, function))
        self._program.add(made)
        event_time = self._type.event_time if self._type.event_time in prototype.columns else None
        return DataStream(self._program, made, StreamType(prototype=prototype, event_time=event_time))


class DataStream(OperatorSettings, _Stream):
    """The rows that one operator makes."""

    def __init__(self, program: Program, transformation: Transformation, row_type: StreamType) -> None:
        super().__init__(program, Input(source=transformation), row_type)
        self._transformation = transformation

    def key_by(self, *columns: Column | str) -> KeyedStream:
        """Bring the rows that agree in these columns to the same subtask of the operator that follows.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit this stream.
        """
        if not columns:
            raise ProgramError(f"key_by after {self._transformation} needs at least one column")
        where = f"key_by({_listed(columns)}) after {self._transformation}"
        tried(where, lambda: transformed(self._type.prototype, lambda rows: rows.select(*columns)))
        return KeyedStream(self._program, self._transformation, self._type, columns)


class KeyedStream(_Stream):
    """The rows of a stream, brought together by key."""

    def __init__(
        self, program: Program, source: Transformation, row_type: StreamType, keys: tuple[Column | str, ...]
    ) -> None:
        hashed = Input(source=source, ship_strategy=ShipStrategy.HASH, key_by=KeyByCode(columns=keys))
        super().__init__(program, hashed, row_type)
        self._keys = keys

    def window(self, assigner: TumblingEventTimeWindows) -> WindowedStream:
        """Cut each key's rows into windows of event time.

        Raises:
            StreamTypeError: the stream has no event time, or an operation before has dropped its column.
        """
        if self._type.event_time is None:
            raise StreamTypeError(
                f"{self._input.source} gives no event time to window by: its source has no timestamp column or no"
                " watermarks, or an operation has dropped or renamed the column"
            )
        return WindowedStream(self._program, self._input, self._type, self._keys, assigner)


class WindowedStream:
    """The rows of a keyed stream, cut into windows."""

    def __init__(
        self,
        program: Program,
        source: Input,
        row_type: StreamType,
        keys: tuple[Column | str, ...],
        assigner: TumblingEventTimeWindows,
    ) -> None:
        self._program = program
        self._input = source
        self._type = row_type
        self._keys = keys
        self._assigner = assigner

    def aggregate(self, *columns: Column) -> DataStream:
        """One row per key and window: `window_start`, `window_end`, the keys, then these aggregates.

        Any aggregate of Spark's will do. Where all can be put together from parts (count, sum, min, max, avg) the rows
        are aggregated before they are exchanged and kept as parts; else the rows themselves are kept.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is no aggregate, or does not fit this stream.
        """
        if not columns:
            raise ProgramError(f"the window aggregation after {self._input.source} needs at least one column")
        rows, time_column = self._type.prototype, self._type.event_time
        assert time_column is not None, "KeyedStream.window has looked"
        kind, position = OperatorKind.WINDOW_AGGREGATE, self._program.next_position
        name = f"aggregate({_listed(columns)})"
        prototype = tried(f"{default_uid(kind, position)} ({name})", lambda: windowed(rows, self._keys, columns))
        plan = analyze(rows, self._keys, columns)
        code = WindowCode(
            keys=self._keys,
            size_ms=self._assigner.size_ms,
            offset_ms=self._assigner.offset_ms,
            time_column=time_column,
            aggregates=columns,
            plan=plan,
        )
        made = Transformation(
            kind=kind,
            position=position,
            name=name,
            code=code,
            inputs=(replace(self._input, key_by=KeyByCode(columns=plan.keys)),),
            local_code=LocalWindowCode(window=code),
        )
        self._program.add(made)
        return DataStream(self._program, made, StreamType(prototype=prototype, event_time=None))


def _listed(columns: tuple[Column | str, ...]) -> str:
    return ", ".join(str(column).removeprefix("Column<'").removesuffix("'>") for column in columns)
