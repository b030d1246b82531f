"""The streams of a program, with the names of Flink and PyFlink: Stream, DataStream and its subclasses.

A stream of flykka is a sequence of DataFrames, so an operation is given as a function of DataFrames or as columns. Each
operation is immediately tried on the stream's prototype, an empty DataFrame with its schema, so that errors point to
the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from flykka.api.migration_hints import MigrationHints
from flykka.api.streams import operators
from flykka.api.streams.operator_settings import DataStreamSink, OperatorSettings
from flykka.api.streams.preview import preview
from flykka.api.streams.program import at_least_one, check_one_program, try_on_prototype
from flykka.api.streams.side_outputs import check_tag
from flykka.api.streams.summary import stream_summary
from flykka.api.streams.transformation import format_columns, function_name
from flykka.api.streams.window_operators import count_windows, windows_of
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.runtime.durations import positive_duration_ms
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.program import functions
from flykka.spark_bridge.program.prototype import check_types
from flykka.spark_bridge.program.refreshed_join import CachedTable, JoinRefreshed
from flykka.spark_bridge.program.trials import (
    check_some,
    check_there,
    checked_deterministic,
    checked_function,
    checked_how,
    checked_sendable,
    checked_static,
)
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.streams.joins import CoGrouped, JoinedStreams, WindowJoined
    from flykka.api.streams.keyed_stream import KeyedStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import OutputTag
    from flykka.api.streams.stream_type import Changelog
    from flykka.api.streams.watermark_strategy import WatermarkStrategy
    from flykka.api.streams.windowed_stream import AllWindowedStream
    from flykka.runtime.durations import Duration
    from flykka.spark_bridge.functions.process_function import ProcessFunction
    from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
    from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
    from flykka.spark_bridge.program.functions import ArrowFunction, JoinOn, PandasFunction
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType
    from flykka.spark_bridge.program.sink import Sink

Row = dict[str, Any]


class Stream(MigrationHints):
    """The rows that operators emit, keyed or not.

    Stateless operations on rows have the same names, arguments and meaning as in a DataFrame. The camel-case names of
    DataFrame methods work too. Each operation is a separate operator; consecutive operators run as one Spark plan. They
    are computed batch by batch, so the result for a row must not depend on how the stream is divided into batches,
    unless `transform` allows that. Each operation is immediately tried on the stream's prototype, and raises
    `StreamTypeError` if it does not fit.

    Spark's Python workers call the functions of `map`, `flat_map` and `filter`, one batch at a time; rows are dicts by
    column name. Where Spark expressions suffice, they are many times faster: `select`, `with_column`, `where`.
    """

    _next_step = "preview() shows first rows; where, select, key_by, ... continue; sink_to(...) ends it"

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        """The operators that emit the rows, the type of the rows, and the keys by which the rows are partitioned."""

    def __repr__(self) -> str:
        return str(stream_summary(type(self).__name__, self.flow, self._next_step))

    def _repr_html_(self) -> str:
        return stream_summary(type(self).__name__, self.flow, self._next_step).html()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.flow.type.prototype.columns

    @property
    def schema(self) -> StructType:
        """The columns with their types."""
        return self.flow.type.prototype.schema

    @property
    def changelog(self) -> Changelog:
        """The kind of changes: append-only rows, or rows that replace earlier rows with the same key."""
        return self.flow.type.changelog

    def print_schema(self) -> None:
        """Print the columns with their types, in the format of a DataFrame."""
        self.flow.type.prototype.printSchema()

    printSchema = print_schema

    def preview(self, rows: int = 10) -> pd.DataFrame:
        """Return up to `rows` rows of the stream as a pandas DataFrame, without running a job.

        The upstream operators process the first batch of each source, at most its first 10,000 rows, as they do in a
        job. Windows fire at the end of that batch. No state is retained, nothing is written, and a later job reads the
        same rows. The result is empty if the operators drop all of these rows.

        Raises:
            EmptySourceError: a source has no data yet.
            SourceError: a source cannot be read.
            ProgramError: an operator cannot run without a job; or `rows` is below 1.
            StreamTypeError: a column has a type that pandas cannot represent.
        """
        limit = at_least_one(rows, "number of rows to preview")
        try_on_prototype("preview(...)", lambda: check_types(self.flow.type.prototype.schema, Use.PREVIEW))
        session, files = self.flow.type.prototype.sparkSession, self.flow.program.files.of_job()
        return preview(session, self.flow.inputs, limit, files)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the rows to a sink.

        Raises:
            ProgramError: `sink` is not a sink.
            StreamTypeError: the sink cannot write these columns with its options.
        """
        return DataStreamSink(operators.add_sink(self.flow, sink))

    def transform(self, function: Callable[[DataFrame], DataFrame], *, per_batch: bool = False) -> DataStream:
        """Apply a function of DataFrames, or a `RichFunction`, to each batch separately.

        The batch boundaries depend on the arrival of the rows. Therefore a function is refused if it combines several
        rows: if it aggregates, sorts, limits, numbers or deduplicates them, or joins them with each other.
        `per_batch=True` allows that within each batch. Only Spark's plan is checked: not actions such as
        `rows.count()`, and not Python code that processes the rows.

        A function may be called for a batch before it is called for an earlier batch; results are forwarded in the
        order of the batches. A `RichFunction` is called for the batches one after another, in their order.

        Raises:
            StreamTypeError: the function does not fit the columns of this stream, returns no DataFrame, or combines
                several rows.
        """
        return self._transformed(
            f"transform({function_name(function)})", lambda _: checked_function(function), per_batch=per_batch
        )

    def select(self, *columns: Column | str) -> DataStream:
        """Return a stream of these columns, computed from each row."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.select, columns=columns)

        return self._transformed(f"select({format_columns(*columns)})", make)

    def select_expr(self, *expressions: str) -> DataStream:
        """Return a stream of these columns, given as SQL expressions: `select_expr("id", "price * 2 AS double")`."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(expressions)
            return partial(functions.select_expr, expressions=expressions)

        return self._transformed(f"select_expr({format_columns(*expressions)})", make)

    selectExpr = select_expr

    def with_column(self, name: str, column: Column) -> DataStream:
        """Add a column, or replace the column with this name, computed from each row."""
        function = partial(functions.with_columns, columns={name: column})
        return self._transformed(f"with_column({name})", lambda _: function)

    withColumn = with_column

    def with_columns(self, columns: Mapping[str, Column]) -> DataStream:
        """Add these columns, or replace columns with the same names, each computed from the previous columns."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.with_columns, columns=dict(columns))

        return self._transformed(f"with_columns({', '.join(columns)})", make)

    withColumns = with_columns

    def with_column_renamed(self, existing: str, new: str) -> DataStream:
        """Rename a column; an event-time column keeps its role.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would ignore that), or the new name exists already.
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_there(prototype, (existing,), "to rename")
            return partial(functions.with_column_renamed, existing=existing, new=new)

        return self._transformed(f"with_column_renamed({existing}, {new})", make, renamed={existing: new})

    withColumnRenamed = with_column_renamed

    def drop(self, *columns: Column | str) -> DataStream:
        """Return a stream without these columns.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would ignore that).
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            check_there(prototype, columns, "to drop")
            return partial(functions.drop, columns=columns)

        return self._transformed(f"drop({format_columns(*columns)})", make)

    def map_in_pandas(self, function: PandasFunction, schema: StructType | str) -> DataStream:
        """Transform pandas DataFrames by a function that runs in Python processes of the executors.

        The function receives an iterator over DataFrames, each with some rows of a batch, and yields DataFrames of
        `schema`, a StructType or DDL. They use nullable types for integers and booleans, Arrow types for lists, maps
        and structs, and UTC for times.
        """
        return self._transformed(
            f"map_in_pandas({function_name(function)})",
            lambda _: partial(functions.map_in_pandas, function=checked_sendable(function), schema=schema),
        )

    mapInPandas = map_in_pandas

    def map_in_arrow(self, function: ArrowFunction, schema: StructType | str) -> DataStream:
        """Transform Arrow record batches by a function, as in `map_in_pandas` but without converting to pandas."""
        return self._transformed(
            f"map_in_arrow({function_name(function)})",
            lambda _: partial(functions.map_in_arrow, function=checked_sendable(function), schema=schema),
        )

    mapInArrow = map_in_arrow

    def join(
        self,
        static: DataFrame,
        on: JoinOn | None = None,
        how: str = "inner",
        refresh: Duration | None = None,
    ) -> DataStream:
        """Join every batch with a static DataFrame, or with a DataFrame that may change if `refresh` is set.

        `how` is inner, left, left_semi, left_anti or cross: other joins would emit unmatched static rows for every
        batch. Unless it is cached, the DataFrame is recomputed from its source for every batch, and must have the same
        rows each time, because a restarted job reads it again.

        With `refresh`, for example `"10min"`, the rows of the DataFrame are retained for that time, by the clock of
        this machine. For the first batch after that they are read again, including the list of files. Each batch is
        joined with one version, and every row is emitted once; another run may join it with another version.

        Raises:
            DurationError: `refresh` is not a positive duration.
            StreamTypeError: the columns do not fit, both sides have a column with the same name that is not in `on`, or
                `how` is another join type.
        """

        refresh_ms = None if refresh is None else positive_duration_ms(refresh, "refresh")

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            table, kind = checked_static(static), checked_how(how, on)
            if refresh_ms is None:
                return partial(functions.join, static=table, on=on, how=kind)
            return JoinRefreshed(CachedTable(table, refresh_ms), on, kind, prototype)

        conditions: list[str] | list[Column] | list[Column | str] = (
            on if isinstance(on, list) else [on] if on is not None else []
        )
        return self._transformed(f"{how} join({format_columns(*conditions)})", make)

    def map(self, function: Callable[[Row], Row], output: StructType | str) -> DataStream:
        """Turn each row into one row with the columns `output`, for example `"id bigint, name string"`.

        Raises:
            ProgramError: `function` is not a function.
            StreamTypeError: `output` is invalid, or the function cannot be pickled.
        """
        self._check_function("map", function)
        return self._transformed(
            f"map({function_name(function)})",
            lambda _: partial(functions.map_rows, function=checked_sendable(function), output=output),
        )

    def flat_map(self, function: Callable[[Row], Iterable[Row] | None], output: StructType | str) -> DataStream:
        """Turn each row into the rows that the function yields or returns. See `map`."""
        self._check_function("flat_map", function)
        return self._transformed(
            f"flat_map({function_name(function)})",
            lambda _: partial(functions.flat_map_rows, function=checked_sendable(function), output=output),
        )

    def where(self, condition: Column | str) -> DataStream:
        """Keep the rows for which the condition is true."""
        return self._transformed(
            f"where({format_columns(condition)})", lambda _: partial(functions.where, condition=condition)
        )

    def filter(self, condition: Column | str | Callable[[Row], object]) -> DataStream:
        """Keep the rows for which a condition or a Python function of a row is true."""
        if not callable(condition):
            return self.where(condition)
        return self._transformed(
            f"filter({function_name(condition)})",
            lambda _: partial(functions.filter_rows, function=checked_sendable(condition)),
        )

    def process(self, function: ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row; it emits rows with the columns `output`, such as `"id bigint, reason string"`.

        A copy of the function is opened and closed immediately as a check. In a job the function is pickled and opened
        in Spark's Python workers. `get_side_output(tag)` returns the rows that it writes to a side output. The emitted
        rows have the event time of this stream if they contain its column.

        Raises:
            ProgramError: `function` is not a ProcessFunction.
            StreamTypeError: `output` is invalid, or the function cannot be pickled.
        """
        return DataStream(operators.process(self.flow, function, output))

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStream: ...

    @overload
    def connect(self, other: DataStream | KeyedStream) -> ConnectedStreams: ...

    def connect(self, other: DataStream | KeyedStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect this stream with another stream, which may have different columns, so that one function reads both.

        If the other stream is broadcast with `rules.broadcast(descriptor)`, each subtask receives all of its rows.

        Raises:
            ProgramError: `other` is not a stream, or belongs to another environment or job.
        """
        from flykka.api.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if not isinstance(other, Stream | BroadcastStream):
            raise ProgramError(
                f"connect after {self.flow} takes a stream, or one that is broadcast, as by"
                f" rules.broadcast(MapStateDescriptor(...)), not {operators.argument_repr(other)}"
            )
        first, second = self.flow, other.flow
        check_one_program(f"connect of {first} with {second}", first.program, second.program)
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(first, second, other.descriptors)
        return ConnectedStreams(first, second)

    def _transformed(
        self,
        name: str,
        make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]],
        *,
        renamed: Mapping[str, str] | None = None,
        per_batch: bool = False,
    ) -> DataStream:
        return DataStream(operators.transform(self.flow, name, make, renamed=renamed, per_batch=per_batch))

    def _check_function(self, verb: str, function: object) -> None:
        if not callable(function):
            raise ProgramError(f"{verb} after {self.flow} takes a function of a row, not {function!r}")


class DataStream(Stream, OperatorSettings):
    """The rows that one operator, or a union of several, emits.

    By default rows are forwarded, or rebalanced if the parallelism changes. A partitioner such as `rebalance` adds no
    operator: it sets how the next operator receives the rows. Only the last call of a partitioner, including `key_by`,
    has an effect. Rows of a changelog are not rebalanced but hashed by its keys, so that rows of the same key stay in
    order.
    """

    _hint_tables = ("data_stream", "every_stream")

    def union(self, *others: DataStream) -> DataStream:
        """Return the rows of this stream and of others with the same columns, in no particular order.

        As in Flink, a union is not an operator: the next operator has an input from each stream, and its watermark is
        that of the slowest input. The union has an event time if all streams have it in the same column.

        Raises:
            ProgramError: no other stream is given, or a stream belongs to another environment or job.
            StreamTypeError: the columns differ in name, type or order, or an argument is not a DataStream.
        """
        if not others:
            raise ProgramError(f"union after {self.flow} needs at least one other stream")
        for other in others:
            if not isinstance(other, DataStream):
                raise StreamTypeError(f"{self.flow} can be united with DataStreams, not with a {type(other).__name__}")
        return DataStream(self.flow.united(tuple(other.flow for other in others)))

    def side_output(self, condition: Column | str) -> tuple[DataStream, DataStream]:
        """Split the rows: `rest, side = stream.side_output(condition)`.

        Rows for which the condition is true go to `side`, all other rows, also if the condition is null, to `rest`.

        Raises:
            StreamTypeError: the condition does not fit the columns of this stream, or is not deterministic.
        """
        name = f"side_output({format_columns(condition)})"
        rest = self._transformed(
            f"rest of {name}",
            lambda prototype: partial(functions.where_not, condition=checked_deterministic(prototype, condition)),
        )
        return rest, self._transformed(name, lambda _: partial(functions.where, condition=condition))

    def get_side_output(self, tag: OutputTag) -> SideOutputDataStream:
        """Return the rows that this operator emits to the side output `tag`.

        A function emits them by `ctx.output(tag, row)`, with the columns of the tag. Windows with
        `side_output_late_data(tag)` emit late rows unchanged.

        Raises:
            ProgramError: the operator has no side output with this tag, or the tag does not declare its columns.
        """
        check_tag("get_side_output", tag)
        if self.flow.side_outputs is None:
            raise ProgramError(
                f"{self.flow} has no side outputs: use a function with process(...), or a window with"
                " .window(...).side_output_late_data(tag) before .aggregate(...)"
            )
        return SideOutputDataStream(self.flow.emitted(*self.flow.side_outputs.add_reader(self.flow.program, tag)))

    def key_by(self, *columns: Column | str) -> KeyedStream:
        """Partition the stream by columns: rows with equal values go to the same subtask of the next operator.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit this stream.
        """
        from flykka.api.streams.keyed_stream import KeyedStream

        return KeyedStream(self.flow.keyed(columns))

    def forward(self) -> DataStream:
        """Send each batch to the subtask with the same index; requires equal parallelisms."""
        return DataStream(self.flow.partitioned(ShipStrategy.FORWARD))

    def rebalance(self) -> DataStream:
        """Distribute the batches round-robin over all subtasks."""
        return DataStream(self.flow.partitioned(ShipStrategy.REBALANCE))

    def rescale(self) -> DataStream:
        """Distribute the batches round-robin over a subset of the subtasks, so that each subtask has few channels."""
        return DataStream(self.flow.partitioned(ShipStrategy.RESCALE))

    def shuffle(self) -> DataStream:
        """Send each batch to a random subtask."""
        return DataStream(self.flow.partitioned(ShipStrategy.SHUFFLE))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> BroadcastStream: ...

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> DataStream | BroadcastStream:
        """Send every batch to all subtasks.

        With descriptors the result can be passed to `connect(...)`, whose function stores the rows in these broadcast
        states.

        Raises:
            ProgramError: an argument is not a MapStateDescriptor, or two have the same name.
        """
        from flykka.api.streams.connected_streams import BroadcastStream

        everywhere = self.flow.partitioned(ShipStrategy.BROADCAST)
        if broadcast_state_descriptors:
            return BroadcastStream(everywhere, broadcast_state_descriptors)
        return DataStream(everywhere)

    def global_(self) -> DataStream:
        """Send every batch to the first subtask."""
        return DataStream(self.flow.partitioned(ShipStrategy.GLOBAL))

    @overload
    def join(self, static: DataStream) -> JoinedStreams[WindowJoined]: ...

    @overload
    def join(
        self, static: DataFrame, on: JoinOn | None = None, how: str = "inner", refresh: Duration | None = None
    ) -> DataStream: ...

    def join(
        self,
        static: DataStream | DataFrame,
        on: JoinOn | None = None,
        how: str = "inner",
        refresh: Duration | None = None,
    ) -> JoinedStreams[WindowJoined] | DataStream:
        """Join with another stream by window, or join every batch with a DataFrame, which may change with `refresh`.

        For a stream, continue with `.where(*keys).equal_to(*keys).window(windows).select(*columns)`. For a DataFrame,
        `how` is inner, left, left_semi, left_anti or cross: other joins would emit unmatched static rows for every
        batch. Unless it is cached, the DataFrame is recomputed from its source for every batch, and must have the same
        rows each time, because a restarted job reads it again.

        With `refresh`, for example `"10min"`, the rows of the DataFrame are retained for that time, by the clock of
        this machine. For the first batch after that they are read again, including the list of files. Each batch is
        joined with one version, and every row is emitted once; another run may join it with another version.

        Raises:
            DurationError: `refresh` is not a positive duration.
            ProgramError: two streams are joined, and `on`, `how` or `refresh` is set.
            StreamTypeError: the columns do not fit, both sides have a column with the same name that is not in `on`, or
                `how` is another join type.
        """
        from flykka.api.streams.joins import JoinedStreams, WindowJoined

        if not isinstance(static, DataStream):
            return super().join(static, on, how, refresh)
        if on is not None or how != "inner" or refresh is not None:
            raise ProgramError(
                "a join of two streams continues with .where(*keys).equal_to(*keys).window(windows), then"
                " .left_outer(), .right_outer() or .full_outer(), and .select(*columns): leave out on, how and refresh"
            )
        return JoinedStreams(self.flow, static.flow, WindowJoined.of)

    def co_group(self, other: DataStream) -> JoinedStreams[CoGrouped]:
        """Combine two streams so that a function receives the rows of both for each key and window.

        Continue with `.where(*keys).equal_to(*keys).window(windows).apply(function, output)`.

        Raises:
            StreamTypeError: `other` is not a DataStream.
        """
        from flykka.api.streams.joins import CoGrouped, JoinedStreams

        if not isinstance(other, DataStream):
            raise StreamTypeError(f"co_group takes another DataStream, not a {type(other).__name__}")
        return JoinedStreams(self.flow, other.flow, CoGrouped)

    def window_all(self, assigner: WindowAssigner) -> AllWindowedStream:
        """Assign all rows to windows without keys, as `window` of a keyed stream does per key.

        As in Flink, one subtask computes the windows. This is no bottleneck for aggregates that can be combined from
        partial aggregates: the upstream subtasks aggregate first, and a tumbling or sliding window receives one row per
        batch. For all other functions, this one subtask processes all rows.

        Raises:
            ProgramError: `assigner` is not a window assigner.
            StreamTypeError: event-time windows on a stream without event time, or whose event-time column was dropped.
        """
        from flykka.api.streams.windowed_stream import AllWindowedStream

        return AllWindowedStream(self.flow.in_one_subtask(), windows_of(self.flow, assigner))

    def count_window_all(self, size: int, slide: int | None = None) -> AllWindowedStream:
        """Assign all rows to windows of `size` rows, as `count_window` of a keyed stream does per key.

        Raises:
            ProgramError: a number is below 1.
        """
        from flykka.api.streams.windowed_stream import AllWindowedStream

        return AllWindowedStream(self.flow.in_one_subtask(), count_windows(size, slide))

    def drop_duplicates(self, columns: str | Sequence[str] | None = None, within: Duration | None = None) -> DataStream:
        """Keep the first of all rows with equal values in some columns, by default in all, and emit it at once.

        Without `within` every kept row is remembered forever, so the state grows. With it, for example `"1 day"`, rows
        are compared by event time: a row is dropped if it is earlier than the kept row, or later by less than `within`.
        A kept row is removed from the state when the watermark is `within` past its event time. Therefore late rows are
        dropped and counted, as by Spark's dropDuplicatesWithinWatermark.

        Raises:
            ProgramError: no column is given, or `within` is not a positive duration.
            StreamTypeError: there is no such column, or with `within` the stream has no event time.
        """
        return DataStream(operators.drop_duplicates(self.flow, columns, within))

    dropDuplicates = drop_duplicates

    def assign_timestamps_and_watermarks(self, strategy: WatermarkStrategy) -> DataStream:
        """Assign the event time that the strategy defines, and generate watermarks at this operator.

        Use this for an event time that is computed, or whose column the source does not declare. The event-time column
        is set by `with_timestamp_column(...)`, by default the current event-time column. As in Flink, watermarks from
        upstream are dropped, except at the end of the input. The operator starts a new task, which processes batches in
        the order in which they were produced. An event time that is declared at the source saves this task.

        Raises:
            ProgramError: `strategy` is not a watermark strategy, or aligns sources, which this operator cannot do.
            StreamTypeError: the column does not exist or is not a timestamp, no column is set and there is no event
                time; or the condition of punctuated watermarks does not fit the rows.
        """
        return DataStream(operators.assign_timestamps_and_watermarks(self.flow, strategy))

    def cache(self) -> CachedDataStream:
        """Cache the rows on the cluster, for this job and later batch jobs of the environment.

        The first job that reads the stream computes its rows and writes them as parquet files into a folder next to the
        checkpoints. When it has finished, later jobs read them from there, in no particular order, without running the
        upstream operators. If the files are missing because that job failed, they were deleted or `invalidate()` was
        called, the next job computes them again. The files are deleted when the environment is closed.

        Raises:
            ProgramError: the stream is a changelog of upserts, which depends on the order of the rows.
        """
        return CachedDataStream(operators.cache(self.flow))

    def with_broadcast_set(self, stream: DataStream, name: str) -> Self:
        """Make all rows of a bounded stream available to the operator's functions: `ctx.get_broadcast_variable(name)`.

        The operator starts when the stream has ended, and every subtask has its rows, as dicts in no particular order,
        from `open` on. The rows are stored in checkpoints, so that they are the same after a restart and in a job that
        restores a checkpoint. In a streaming program, the stream and the operators upstream of it may feed only
        broadcast variables. While the program is being defined and the function is tried on the prototype, the variable
        is empty.

        Raises:
            ProgramError: the operator has no function with a context, or already has a variable with this name; or
                `stream` does not belong to this program, is unbounded, or depends on this operator.
        """
        operator = self.flow.operator
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"the name of a broadcast variable of {operator} must be a non-empty text, not {name!r}")
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"with_broadcast_set(..., {name!r}) of {operator} takes a stream, not {short_repr(stream)}"
            )
        operators.add_broadcast_set(self.flow, stream.flow, name)
        return self


class SideOutputDataStream(DataStream):
    """The rows that an operator emits to a side output. It has the settings of the operator."""

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Raise `ProgramError`, because a side output has the parallelism of its operator."""
        raise self._setting_of_operator("parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Raise `ProgramError`, because a side output has the maximum parallelism of its operator."""
        raise self._setting_of_operator("maximum parallelism")

    def slot_sharing_group(self, group: str) -> Self:
        """Raise `ProgramError`, because a side output has the slot sharing group of its operator."""
        raise self._setting_of_operator("slot sharing group")

    def _setting_of_operator(self, what: str) -> ProgramError:
        windows = self.flow.operator.inputs[0].source
        return ProgramError(f"{self.flow.operator} runs in the tasks of {windows}, so set the {what} there")


class CachedDataStream(DataStream):
    """A stream cached by `cache()`: the first batch job that reads it writes its rows, which later batch jobs read.

    All later programs of the environment can use it.
    """

    _next_step = "preview() shows first rows; where, select, key_by, ... continue, in this job and in later ones"

    def __init__(self, flow: Dataflow) -> None:
        super().__init__(flow)
        flow.program.on_successor(self._move_to)

    def invalidate(self) -> None:
        """Release the cached rows: the next job that reads the stream computes them again.

        Running jobs that read the rows continue, and the rows are deleted when these jobs have ended. Without cached
        rows this does nothing.
        """
        self.flow.program.cached.invalidate(self.flow.inputs[0].source)

    def _move_to(self, program: Program) -> None:
        self.flow = replace(self.flow, program=program)
