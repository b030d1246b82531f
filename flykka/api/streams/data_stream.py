"""A program's streams, by Flink's and PyFlink's names: what all streams can do, DataStream, and those that it becomes.

A stream of flykka is a sequence of DataFrames, so an operation is a function of DataFrames, or columns of one. Each is
tried at once on the stream's prototype, an empty DataFrame with its schema: what does not fit is refused on the user's
own line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams import operators
from flykka.api.streams.operator_settings import DataStreamSink, OperatorSettings
from flykka.api.streams.preview import preview
from flykka.api.streams.program import at_least_one, check_one_program, tried
from flykka.api.streams.side_outputs import check_tag
from flykka.api.streams.summary import stream_summary
from flykka.api.streams.transformation import function_name, listed
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


class Stream(NamesElsewhere):
    """The rows that come from some operators, keyed or not.

    Verbs on rows without memory of others are those of a DataFrame, with its arguments and its meaning. Those that a
    DataFrame has in camel case have that name too. Each is an operator of its own; those that stand in a row run as one
    plan. They are computed batch by batch, so what a row becomes must not depend on where the stream was cut, unless
    `transform` is told that it may. Each is tried at once on the stream's prototype, and raises `StreamTypeError` where
    it does not fit.

    Spark's Python workers call the functions of `map`, `flat_map` and `filter`, a batch at a time; their rows are dicts
    by the names of the columns. What columns can say is many times faster as an expression of Spark's: `select`,
    `with_column`, `where`.
    """

    _next_step = "preview() shows first rows; where, select, key_by, ... go on; sink_to(...) ends it"

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        """The operators that the rows come from, their type, and the keys that they are partitioned by."""

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
        """Tells whether its rows stay, or take the place of earlier ones that agree with them in some keys."""
        return self.flow.type.changelog

    def print_schema(self) -> None:
        """Print the columns with their types, as a DataFrame does."""
        self.flow.type.prototype.printSchema()

    printSchema = print_schema

    def preview(self, rows: int = 10) -> pd.DataFrame:
        """At most so many rows of the stream, as a pandas DataFrame, without a job.

        The operators that lead here run on the first batch of each source, on at most its first 10,000 rows, as they
        run in a job. Windows fire with the rows of that batch. No state is kept, nothing is written, and a job that is
        executed later reads the same rows. The table is empty where an operator has left none of them.

        Raises:
            EmptySourceError: a source has nothing to read yet.
            SourceError: a source cannot be read.
            ProgramError: an operator cannot run without a job; or the number is below 1.
            StreamTypeError: Python has no such rows.
        """
        limit = at_least_one(rows, "number of rows to preview")
        tried("preview(...)", lambda: check_types(self.flow.type.prototype.schema, Use.PREVIEW))
        session, files = self.flow.type.prototype.sparkSession, self.flow.program.files.of_job()
        return preview(session, self.flow.inputs, limit, files)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the rows to a sink.

        Raises:
            ProgramError: `sink` is none.
            StreamTypeError: the sink cannot write these columns, or not with its options.
        """
        return DataStreamSink(operators.add_sink(self.flow, sink))

    def transform(self, function: Callable[[DataFrame], DataFrame], *, per_batch: bool = False) -> DataStream:
        """Apply a function, or a `RichFunction`, to every batch: rows in, rows out, with no memory of other batches.

        Where batches begin and end is decided by how the rows came in. So a function is refused that looks at several
        rows together: one that aggregates, sorts, limits or numbers them, removes duplicates, or joins the rows with
        each other. `per_batch=True` says that this is meant, for each batch by itself. Only what stands in Spark's plan
        is seen: not an action such as `rows.count()`, and not what Python code does with the rows that it is given.

        A function may be called for a batch before it is called for an earlier one; results leave in the order of the
        batches. A `RichFunction` is called for one batch after the other, in their order.

        Raises:
            StreamTypeError: the function does not fit the columns of this stream, or returns no DataFrame, or looks at
                several rows together.
        """
        return self._then(
            f"transform({function_name(function)})", lambda _: checked_function(function), per_batch=per_batch
        )

    def select(self, *columns: Column | str) -> DataStream:
        """Keep or compute these columns, each row for itself."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.select, columns=columns)

        return self._then(f"select({listed(*columns)})", make)

    def select_expr(self, *expressions: str) -> DataStream:
        """Keep or compute these columns, each an expression of SQL: `select_expr("id", "price * 2 AS double")`."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(expressions)
            return partial(functions.select_expr, expressions=expressions)

        return self._then(f"select_expr({listed(*expressions)})", make)

    selectExpr = select_expr

    def with_column(self, name: str, column: Column) -> DataStream:
        """Add a column, or replace the one of this name, each row for itself."""
        function = partial(functions.with_columns, columns={name: column})
        return self._then(f"with_column({name})", lambda _: function)

    withColumn = with_column

    def with_columns(self, columns: Mapping[str, Column]) -> DataStream:
        """Add these columns, or replace those of their names, each computed from the columns before."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.with_columns, columns=dict(columns))

        return self._then(f"with_columns({', '.join(columns)})", make)

    withColumns = with_columns

    def with_column_renamed(self, existing: str, new: str) -> DataStream:
        """Give a column another name; the event time stays the event time.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would let that pass), or the new name is taken.
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_there(prototype, (existing,), "to rename")
            return partial(functions.with_column_renamed, existing=existing, new=new)

        return self._then(f"with_column_renamed({existing}, {new})", make, renamed={existing: new})

    withColumnRenamed = with_column_renamed

    def drop(self, *columns: Column | str) -> DataStream:
        """Leave these columns out.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would let that pass).
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            check_there(prototype, columns, "to drop")
            return partial(functions.drop, columns=columns)

        return self._then(f"drop({listed(*columns)})", make)

    def map_in_pandas(self, function: PandasFunction, schema: StructType | str) -> DataStream:
        """Let a function make pandas DataFrames of pandas DataFrames, in Python processes of the executors.

        It is given an iterator over a part of a batch and yields rows of `schema`, a StructType or DDL. Frames have
        nullable types for whole numbers and booleans, Arrow's for lists, maps and structs, and times in UTC.
        """
        return self._then(
            f"map_in_pandas({function_name(function)})",
            lambda _: partial(functions.map_in_pandas, function=checked_sendable(function), schema=schema),
        )

    mapInPandas = map_in_pandas

    def map_in_arrow(self, function: ArrowFunction, schema: StructType | str) -> DataStream:
        """Let a function make Arrow record batches of record batches: `map_in_pandas` without the way over pandas."""
        return self._then(
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
        """Join every batch with a DataFrame: one that does not change, or with `refresh` one that may.

        `how` is inner, left, left_semi, left_anti or cross: what keeps static rows that match nothing has no meaning
        batch by batch. The DataFrame is computed again for every batch, from where it is read, unless it is cached, and
        must give the same rows each time: a restarted job works on with what it reads then.

        With `refresh`, such as `"10min"`, its rows are kept for so long, by the clock of this machine, and read again
        for the first batch behind that; so are the names of its files. Each batch is joined with one version of them,
        and every row comes out once; which version it was joined with may differ from run to run.

        Raises:
            DurationError: `refresh` is no length of time above zero.
            StreamTypeError: the columns do not fit, both sides have one of the same name beside those of `on`, or the
                kind of join is none of these.
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
        return self._then(f"{how} join({listed(*conditions)})", make)

    def map(self, function: Callable[[Row], Row], output: StructType | str) -> DataStream:
        """Make one row of each, of the columns `output`, such as `"id bigint, name string"`.

        Raises:
            ProgramError: `function` is none.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        self._check_function("map", function)
        return self._then(
            f"map({function_name(function)})",
            lambda _: partial(functions.map_rows, function=checked_sendable(function), output=output),
        )

    def flat_map(self, function: Callable[[Row], Iterable[Row] | None], output: StructType | str) -> DataStream:
        """Make any number of rows of each: those that the function yields or returns. As `map`."""
        self._check_function("flat_map", function)
        return self._then(
            f"flat_map({function_name(function)})",
            lambda _: partial(functions.flat_map_rows, function=checked_sendable(function), output=output),
        )

    def where(self, condition: Column | str) -> DataStream:
        """Keep the rows for which the condition is true."""
        return self._then(f"where({listed(condition)})", lambda _: partial(functions.where, condition=condition))

    def filter(self, condition: Column | str | Callable[[Row], object]) -> DataStream:
        """Keep the rows for which a condition, or a Python function of a row, is true."""
        if not callable(condition):
            return self.where(condition)
        return self._then(
            f"filter({function_name(condition)})",
            lambda _: partial(functions.filter_rows, function=checked_sendable(condition)),
        )

    def process(self, function: ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row: rows of the columns `output`, such as `"id bigint, reason string"`.

        A copy of the function is opened and closed here. In a job it is pickled, and opened in Spark's Python workers.
        `get_side_output(tag)` gives what it writes to side outputs. The rows have the event time of this stream where
        they have its column.

        Raises:
            ProgramError: `function` is no ProcessFunction.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        return DataStream(operators.process(self.flow, function, output))

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStream: ...

    @overload
    def connect(self, other: DataStream | KeyedStream) -> ConnectedStreams: ...

    def connect(self, other: DataStream | KeyedStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Let one function read this stream and another one, whose rows may be of other columns.

        The other one may be broadcast, as by `rules.broadcast(descriptor)`: then each subtask gets all of its rows.

        Raises:
            ProgramError: `other` is no stream, or one of another environment or another job.
        """
        from flykka.api.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if not isinstance(other, Stream | BroadcastStream):
            raise ProgramError(
                f"connect after {self.flow} takes a stream, or one that is broadcast, as by"
                f" rules.broadcast(MapStateDescriptor(...)), not {operators.shown_function(other)}"
            )
        first, second = self.flow, other.flow
        check_one_program(f"connect of {first} with {second}", first.program, second.program)
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(first, second, other.descriptors)
        return ConnectedStreams(first, second)

    def _then(
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
    """The rows that one operator makes, or several that are united.

    Unless a partitioner such as `rebalance` is called, rows are forwarded, or rebalanced where the parallelism changes.
    A partitioner adds no operator: the one that reads the stream next is fed so, and what is said last holds; `key_by`
    says it too. Rows of a changelog are not rebalanced but hashed by its keys, so that none overtakes another of its
    key.
    """

    _foreign_names = ("data_stream", "every_stream")

    def union(self, *others: DataStream) -> DataStream:
        """The rows of this stream and of others with the same columns, in no order between them.

        As in Flink a union is no operator: what reads it has an input from each stream, and its event time is that of
        the slowest. The union has an event time where all of them have it in the same column.

        Raises:
            ProgramError: no other stream is given, or one of another environment or another job.
            StreamTypeError: the columns differ in name, type or order, or what is given is no DataStream.
        """
        if not others:
            raise ProgramError(f"union after {self.flow} needs at least one other stream")
        for other in others:
            if not isinstance(other, DataStream):
                raise StreamTypeError(f"{self.flow} can be united with DataStreams, not with a {type(other).__name__}")
        return DataStream(self.flow.united(tuple(other.flow for other in others)))

    def side_output(self, condition: Column | str) -> tuple[DataStream, DataStream]:
        """Part the rows: `rest, side = stream.side_output(condition)`.

        The rows for which the condition is true go to `side`, all others, also where it is null, to `rest`.

        Raises:
            StreamTypeError: the condition does not fit the columns of this stream, or is not deterministic.
        """
        name = f"side_output({listed(condition)})"
        rest = self._then(
            f"rest of {name}",
            lambda prototype: partial(functions.where_not, condition=checked_deterministic(prototype, condition)),
        )
        return rest, self._then(name, lambda _: partial(functions.where, condition=condition))

    def get_side_output(self, tag: OutputTag) -> SideOutputDataStream:
        """The rows that this operator gives to the side output `tag`.

        Of a function these are the rows that it gives to `ctx.output(tag, row)`, of the columns of the tag; of windows
        with `side_output_late_data(tag)` those that came too late, as they were cut into windows.

        Raises:
            ProgramError: the operator has no side output of this tag, or the tag does not name its columns.
        """
        check_tag("get_side_output", tag)
        if self.flow.side_outputs is None:
            raise ProgramError(
                f"{self.flow} has no side outputs: functions have, by process(...), and windows, by"
                " .window(...).side_output_late_data(tag) before .aggregate(...)"
            )
        return SideOutputDataStream(self.flow.emitted(*self.flow.side_outputs.add_reader(self.flow.program, tag)))

    def key_by(self, *columns: Column | str) -> KeyedStream:
        """Bring the rows that agree in these columns to the same subtask of the operator that follows.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit this stream.
        """
        from flykka.api.streams.keyed_stream import KeyedStream

        return KeyedStream(self.flow.keyed(columns))

    def forward(self) -> DataStream:
        """Hand each batch to the subtask of the same number, which must exist: the parallelisms must be equal."""
        return DataStream(self.flow.partitioned(ShipStrategy.FORWARD))

    def rebalance(self) -> DataStream:
        """Hand the batches to all subtasks in turn."""
        return DataStream(self.flow.partitioned(ShipStrategy.REBALANCE))

    def rescale(self) -> DataStream:
        """Hand the batches to some subtasks in turn: each subtask feeds, or is fed by, its even share of the others."""
        return DataStream(self.flow.partitioned(ShipStrategy.RESCALE))

    def shuffle(self) -> DataStream:
        """Hand each batch to a subtask by lot."""
        return DataStream(self.flow.partitioned(ShipStrategy.SHUFFLE))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> BroadcastStream: ...

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> DataStream | BroadcastStream:
        """Hand every batch to all subtasks.

        With descriptors it is for `connect(...)`: the function that reads it there keeps these maps of it.

        Raises:
            ProgramError: what is given are no descriptors of maps, or two have one name.
        """
        from flykka.api.streams.connected_streams import BroadcastStream

        everywhere = self.flow.partitioned(ShipStrategy.BROADCAST)
        if broadcast_state_descriptors:
            return BroadcastStream(everywhere, broadcast_state_descriptors)
        return DataStream(everywhere)

    def global_(self) -> DataStream:
        """Hand every batch to the first subtask."""
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
        """Join with another stream by window, or every batch with a DataFrame, which may change with `refresh`.

        Of streams, `.where(*keys).equal_to(*keys).window(windows).select(*columns)` goes on. Of a DataFrame, `how` is
        inner, left, left_semi, left_anti or cross: what keeps static rows that match nothing has no meaning batch by
        batch. The DataFrame is computed again for every batch, from where it is read, unless it is cached. It must give
        the same rows each time: a restarted job works on with what it reads then.

        With `refresh`, such as `"10min"`, its rows are kept for so long, by the clock of this machine, and read again
        for the first batch behind that; so are the names of its files. Each batch is joined with one version of them,
        and every row comes out once; which version it was joined with may differ from run to run.

        Raises:
            DurationError: `refresh` is no length of time above zero.
            ProgramError: streams are joined, and `on`, `how` or `refresh` is given.
            StreamTypeError: the columns do not fit, both sides have one of the same name beside those of `on`, or the
                kind of join is none of these.
        """
        from flykka.api.streams.joins import JoinedStreams, WindowJoined

        if not isinstance(static, DataStream):
            return super().join(static, on, how, refresh)
        if on is not None or how != "inner" or refresh is not None:
            raise ProgramError(
                "a join of two streams goes on with .where(*keys).equal_to(*keys).window(windows), then"
                " .left_outer(), .right_outer() or .full_outer(), and .select(*columns): leave out on, how and refresh"
            )
        return JoinedStreams(self.flow, static.flow, WindowJoined.of)

    def co_group(self, other: DataStream) -> JoinedStreams[CoGrouped]:
        """Give a function the rows of both streams of each key and window.

        `.where(*keys).equal_to(*keys).window(windows).apply(function, output)` goes on.

        Raises:
            StreamTypeError: the other one is no DataStream.
        """
        from flykka.api.streams.joins import CoGrouped, JoinedStreams

        if not isinstance(other, DataStream):
            raise StreamTypeError(f"co_group takes another DataStream, not a {type(other).__name__}")
        return JoinedStreams(self.flow, other.flow, CoGrouped)

    def window_all(self, assigner: WindowAssigner) -> AllWindowedStream:
        """Cut all rows into windows without keys, as `window` of a keyed stream does those of each key.

        As in Flink they are put together in one subtask. Aggregates of columns that are made of parts are computed
        before, in the subtasks that the rows come from, and a tumbling or sliding window has one row of each batch:
        that is no bottleneck. Everything else has that one subtask work on all rows.

        Raises:
            ProgramError: `assigner` is none.
            StreamTypeError: windows of event time, and the stream has none, or an operation before has dropped its
                column.
        """
        from flykka.api.streams.windowed_stream import AllWindowedStream

        return AllWindowedStream(self.flow.in_one_subtask(), windows_of(self.flow, assigner))

    def count_window_all(self, size: int, slide: int | None = None) -> AllWindowedStream:
        """Cut all rows into windows of `size` rows, as `count_window` of a keyed stream does those of each key.

        Raises:
            ProgramError: a number is none from 1.
        """
        from flykka.api.streams.windowed_stream import AllWindowedStream

        return AllWindowedStream(self.flow.in_one_subtask(), count_windows(size, slide))

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
        return DataStream(operators.drop_duplicates(self.flow, columns, within))

    dropDuplicates = drop_duplicates

    def assign_timestamps_and_watermarks(self, strategy: WatermarkStrategy) -> DataStream:
        """Give the rows the event time that the strategy says, and make watermarks of it here.

        For an event time that is computed, or read from a column that a source does not declare. Its column is that of
        `with_timestamp_column(...)`, else the one that is the event time already. Watermarks from before end here, as
        in Flink, but for the end of the input. The operator begins a task of its own, which sees batches as they were
        made: where a source can say its event time itself, that costs a step less.

        Raises:
            ProgramError: `strategy` is no watermark strategy, or aligns sources, which this is not.
            StreamTypeError: there is no such column, it is no timestamp, or none is named where there is no event time;
                or the condition of punctuated watermarks does not fit the rows.
        """
        return DataStream(operators.assign_timestamps_and_watermarks(self.flow, strategy))

    def cache(self) -> CachedDataStream:
        """Keep the rows on the cluster, for this job and for later ones of the environment: batch jobs alone.

        The first job that reads the stream computes its rows and writes them, as parquet, into a folder beside the
        checkpoints. When it has finished, later jobs read them from there, in no order, and compute nothing of what
        leads here. Where they are gone, because the job has failed, somebody has deleted them, or by `invalidate()`,
        the next job computes them again. They are deleted when the environment is closed.

        Raises:
            ProgramError: rows of the stream take the place of earlier ones, which needs their order.
        """
        return CachedDataStream(operators.cache(self.flow))

    def with_broadcast_set(self, stream: DataStream, name: str) -> Self:
        """Let functions of this operator read all rows of a bounded stream: `ctx.get_broadcast_variable(name)`.

        The operator begins when the stream has come to its end, and has its rows as dicts, in no order, in every
        subtask from `open` on. They are kept in its checkpoints: after a restart, and in a job that goes on from one,
        they are the same. In a streaming program the stream and what it is made of feed broadcast variables alone.
        Where the operator is written, and its function tried, a variable is empty.

        Raises:
            ProgramError: this is no operator with a function that has a context; `stream` is no stream of this program,
                has no end, or depends on this operator; or the operator has a variable of this name.
        """
        operator = self.flow.operator
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(
                f"the name of a broadcast variable of {operator} must be a text that names it, not {name!r}"
            )
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"with_broadcast_set(..., {name!r}) of {operator} takes a stream, not {short_repr(stream)}"
            )
        operators.add_broadcast_set(self.flow, stream.flow, name)
        return self


class SideOutputDataStream(DataStream):
    """The rows that an operator gives to a side output. They leave in the task of that operator."""

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("maximum parallelism")

    def slot_sharing_group(self, group: str) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("slot sharing group")

    def _set_elsewhere(self, what: str) -> ProgramError:
        windows = self.flow.operator.inputs[0].source
        return ProgramError(f"the {what} of {self.flow.operator} is that of {windows}, in whose tasks it runs")


class CachedDataStream(DataStream):
    """Made by `cache()`. The first job that reads it keeps its rows, which later ones read; all are batch jobs.

    It belongs to every program of its environment that is written down after it.
    """

    _next_step = "preview() shows first rows; where, select, key_by, ... go on, in this job and in later ones"

    def __init__(self, flow: Dataflow) -> None:
        super().__init__(flow)
        flow.program.when_followed(self._move_to)

    def invalidate(self) -> None:
        """Let go of the rows that are kept: the next job that reads the stream computes them again.

        Jobs that read them now go on, and the rows are deleted when these are over. Where none are kept nothing
        happens.
        """
        self.flow.program.cached.invalidate(self.flow.inputs[0].source)

    def _move_to(self, program: Program) -> None:
        self.flow = replace(self.flow, program=program)
