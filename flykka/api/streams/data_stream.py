"""A program's streams, by Flink's and PyFlink's names: DataStream, KeyedStream.

A stream of flykka is a sequence of DataFrames, so an operation is a function of DataFrames, or columns of one. Each is
tried at once on the stream's prototype, an empty DataFrame with its schema: what does not fit is refused on the user's
own line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.all_windows import AllWindowedStream, AllWindows
from flykka.api.streams.broadcast_sets import BroadcastSets
from flykka.api.streams.cache_verb import CacheVerb
from flykka.api.streams.changelog import APPEND_ONLY, Changelog
from flykka.api.streams.connected_streams import ConnectVerb
from flykka.api.streams.interval_join import IntervalJoinVerb
from flykka.api.streams.keyed_rows_verbs import DropDuplicatesVerb, KeptRowVerbs, ProcessTableVerb
from flykka.api.streams.operator_settings import DataStreamSink
from flykka.api.streams.output_tag import OutputTag
from flykka.api.streams.partitioning import Partitioning, ordered
from flykka.api.streams.preview import preview
from flykka.api.streams.process_verbs import KeyedProcessVerb, ProcessVerb
from flykka.api.streams.program import Program, at_least_one, check_one_program, tried
from flykka.api.streams.python_verbs import PythonVerbs
from flykka.api.streams.regular_join import RegularJoinVerb
from flykka.api.streams.running_aggregates import RunningAggregates
from flykka.api.streams.side_outputs import FunctionOutputs, SideOutputs
from flykka.api.streams.stateless_verbs import StatelessVerbs, listed
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.summary import Displayed, Summary, stream_summary
from flykka.api.streams.temporal_join import TemporalJoinVerb
from flykka.api.streams.transformation import Input, Transformation, default_uid, origins, partitioned
from flykka.api.streams.watermark_assignment import WatermarkAssignment
from flykka.api.streams.window_aggregation import add_aggregates
from flykka.api.streams.window_join import WindowJoinVerbs
from flykka.api.streams.window_verbs import WindowVerbs
from flykka.api.streams.windowed_rows import KeyedRows, WindowSettings
from flykka.api.streams.windowed_stream import WindowedStream
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.spark_bridge.functions.checkpointed_function import operator_state_of
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.group_aggregate import GroupAggregateCode
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.program.functions import where, where_not
from flykka.spark_bridge.program.prototype import check_types, fitted, key_schema, running
from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.program.trials import check_union, checked_deterministic
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.streams.side_output_data_stream import SideOutputDataStream
    from flykka.runtime.durations import Duration
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorCode
    from flykka.spark_bridge.operators.process import ProcessCode
    from flykka.spark_bridge.program.functions import JoinOn
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType


class _Stream(ConnectVerb, ProcessVerb, PythonVerbs, StatelessVerbs, Displayed, NamesElsewhere):
    """The rows that come from some inputs, keyed or not."""

    _next_step = "preview() shows first rows; where, select, key_by, ... go on; sink_to(...) ends it"
    _keys: tuple[Column | str, ...] = ()

    def __init__(self, program: Program, inputs: tuple[Input, ...], row_type: StreamType) -> None:
        self._program = program
        self._inputs = ordered(inputs, row_type.changelog)
        self._type = row_type

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._type.prototype.columns

    @property
    def schema(self) -> StructType:
        """The columns with their types."""
        return self._type.prototype.schema

    @property
    def changelog(self) -> Changelog:
        """Tells whether its rows stay, or take the place of earlier ones that agree with them in some keys."""
        return self._type.changelog

    def print_schema(self) -> None:
        """Print the columns with their types, as a DataFrame does."""
        self._type.prototype.printSchema()

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
        tried("preview(...)", lambda: check_types(self._type.prototype.schema, Use.PREVIEW))
        return preview(self._type.prototype.sparkSession, self._inputs, limit, self._program.files.of_job())

    def _summary(self) -> Summary:
        return stream_summary(type(self).__name__, self._origins, self._inputs, self._type, self._next_step)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the rows to a sink.

        Raises:
            ProgramError: `sink` is none.
            StreamTypeError: the sink cannot write these columns, or not with its options.
        """
        if not isinstance(sink, Sink):
            raise ProgramError(
                f"sink_to after {origins(self._inputs)} takes a sink such as FileSink.parquet(path), not {sink!r}"
            )
        made = Transformation(
            kind=OperatorKind.SINK,
            position=self._program.next_position,
            name=str(sink),
            code=SinkCode(sink=sink.bound(self._type.prototype.sparkSession)),
            inputs=self._inputs,
            publishes_per_checkpoint=sink.publishes_per_checkpoint,
            parallelism_limit=sink.parallelism_limit,
        )
        tried(made, lambda: sink.check_rows(self._type.prototype))
        self._program.add(made)
        return DataStreamSink(self._program, made)

    @property
    def _origins(self) -> str:
        return origins(self._inputs)

    def _emitted(
        self, made: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> DataStream:
        return DataStream(self._program, made, row_type, side_outputs)

    def _processed(
        self,
        name: str,
        code: ProcessCode,
        prototype: DataFrame,
        late_data_tag: OutputTag | None = None,
        event_time: EventTime | None = None,
    ) -> DataStream:
        made = self._added(name, code)
        row_type = self._type if event_time is None else replace(self._type, event_time=event_time)
        emitted = row_type.of_rows(prototype).emitted_by(code)
        return self._emitted(made, emitted, FunctionOutputs(made, self._type, late_data_tag))

    def _at_head(self, name: str, code: OperatorCode, row_type: StreamType) -> DataStream:
        return self._emitted(self._added(name, code), row_type.emitted_by(code))

    def _added(self, name: str, code: OperatorCode, inputs: tuple[Input, ...] | None = None) -> Transformation:
        made = Transformation(
            kind=code.kind,
            position=self._program.next_position,
            name=name,
            code=code,
            inputs=self._inputs if inputs is None else inputs,
            # It is told of time, which the head of a chain is alone.
            chaining=ChainingStrategy.HEAD,
        )
        self._program.add(made)
        return made

    def _then(
        self,
        name: str,
        make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]],
        *,
        renamed: Mapping[str, str] | None = None,
        per_batch: bool = False,
    ) -> DataStream:
        kind, position = OperatorKind.STATELESS, self._program.next_position
        uid = default_uid(kind, position)
        function, result = tried(
            name,
            lambda: fitted(
                self._type.prototype,
                make,
                uid=uid,
                name=name,
                resources=self._program.files.resources,
                per_batch=per_batch,
            ),
        )
        code = TransformCode(function=function, operator_state=tried(name, lambda: operator_state_of(function)))
        made = Transformation(kind=kind, position=position, name=name, code=code, inputs=self._inputs)
        self._program.add(made)
        return DataStream(self._program, made, self._type.of_rows(result, renamed))


class DataStream(
    CacheVerb,
    BroadcastSets,
    Partitioning,
    WindowJoinVerbs,
    _Stream,
    DropDuplicatesVerb,
    AllWindows,
    WatermarkAssignment,
):
    """The rows that one operator makes, or several that are united."""

    _foreign_names = ("data_stream", "every_stream")

    def __init__(
        self,
        program: Program,
        origin: Transformation | tuple[Input, ...],
        row_type: StreamType,
        side_outputs: SideOutputs | None = None,
    ) -> None:
        inputs = origin if isinstance(origin, tuple) else (Input(source=origin),)
        super().__init__(program, inputs, row_type)
        self._side_outputs = side_outputs

    @property
    def _transformation(self) -> Transformation:
        if len(self._inputs) > 1:
            raise ProgramError(
                f"{origins(self._inputs)} is no operator, so nothing can be set on it: say it of the streams that are"
                " united, or of what reads the union"
            )
        if self._inputs[0].ship_strategy is not None:
            raise ProgramError(
                f"{origins(self._inputs)} is partitioned already, so nothing can be set on it: say it before"
                f" {self._inputs[0].ship_strategy.lower()}, or of what reads the stream"
            )
        return self._inputs[0].source

    def _typed(self, *, changelog: Changelog, event_time: EventTime | None = None) -> DataStream:
        """The rows, of which is known what no operator says: how they take the place of each other, and their time."""
        return DataStream(self._program, self._inputs, replace(self._type, event_time=event_time, changelog=changelog))

    def _partitioned(self, strategy: ShipStrategy) -> DataStream:
        return DataStream(self._program, partitioned(self._inputs, strategy), self._type)

    def union(self, *others: DataStream) -> DataStream:
        """The rows of this stream and of others with the same columns, in no order between them.

        As in Flink a union is no operator: what reads it has an input from each stream, and its event time is that of
        the slowest. The union has an event time where all of them have it in the same column.

        Raises:
            ProgramError: no other stream is given, or one of another environment or another job.
            StreamTypeError: the columns differ in name, type or order, or what is given is no DataStream.
        """
        if not others:
            raise ProgramError(f"union after {origins(self._inputs)} needs at least one other stream")
        for other in others:
            self._check_unites(other)
        streams = (self, *others)
        event_times = {stream._type.event_time for stream in streams}
        changelogs = {stream._type.changelog for stream in streams}
        row_type = replace(
            self._type,
            event_time=event_times.pop() if len(event_times) == 1 else None,
            changelog=changelogs.pop() if len(changelogs) == 1 else APPEND_ONLY,
        )
        return DataStream(self._program, tuple(each for stream in streams for each in stream._inputs), row_type)

    def _check_unites(self, other: DataStream) -> None:
        ours = origins(self._inputs)
        if not isinstance(other, DataStream):
            raise StreamTypeError(f"{ours} can be united with DataStreams, not with a {type(other).__name__}")
        what = f"union of {ours} with {origins(other._inputs)}"
        check_one_program(what, self._program, other._program)
        tried(what, lambda: check_union(self._type.prototype, other._type.prototype))

    def side_output(self, condition: Column | str) -> tuple[DataStream, DataStream]:
        """Part the rows: `rest, side = stream.side_output(condition)`.

        The rows for which the condition is true go to `side`, all others, also where it is null, to `rest`.

        Raises:
            StreamTypeError: the condition does not fit the columns of this stream, or is not deterministic.
        """
        name = f"side_output({listed(condition)})"
        rest = self._then(
            f"rest of {name}",
            lambda prototype: partial(where_not, condition=checked_deterministic(prototype, condition)),
        )
        return rest, self._then(name, lambda _: partial(where, condition=condition))

    def get_side_output(self, tag: OutputTag) -> SideOutputDataStream:
        """The rows that this operator gives to the side output `tag`.

        Of a function these are the rows that it gives to `ctx.output(tag, row)`, of the columns of the tag; of windows
        with `side_output_late_data(tag)` those that came too late, as they were cut into windows.

        Raises:
            ProgramError: the operator has no side output of this tag, or the tag does not name its columns.
        """
        from flykka.api.streams.side_output_data_stream import SideOutputDataStream

        if not isinstance(tag, OutputTag):
            raise ProgramError(f"get_side_output takes an OutputTag, such as OutputTag('late'), not {tag!r}")
        if self._side_outputs is None:
            raise ProgramError(
                f"{origins(self._inputs)} has no side outputs: functions have, by process(...), and windows, by"
                " .window(...).side_output_late_data(tag) before .aggregate(...)"
            )
        made, row_type = self._side_outputs.add_reader(self._program, tag)
        return SideOutputDataStream(self._program, made, row_type)

    def key_by(self, *columns: Column | str) -> KeyedStream:
        """Bring the rows that agree in these columns to the same subtask of the operator that follows.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit this stream.
        """
        origin = origins(self._inputs)
        if not columns:
            raise ProgramError(f"key_by after {origin} needs at least one column")
        keyed = f"key_by({listed(*columns)}) after {origin}"
        tried(keyed, lambda: key_schema(self._type.prototype, columns))
        return KeyedStream(self._program, self._inputs, self._type, columns)

    def _join_static(self, static: DataFrame, on: JoinOn | None, how: str, refresh: Duration | None) -> DataStream:
        return _Stream.join(self, static, on, how, refresh)

    def _all_rows(self) -> NonParallelStream:
        return NonParallelStream(self._program, partitioned(self._inputs, ShipStrategy.GLOBAL), self._type)


class KeyedStream(
    KeyedProcessVerb,
    _Stream,
    RunningAggregates,
    ProcessTableVerb,
    KeptRowVerbs,
    WindowVerbs[WindowedStream],
    IntervalJoinVerb,
    RegularJoinVerb,
    TemporalJoinVerb,
):
    """The rows of a stream, brought together by key.

    What follows at once, a window or a stateless operator, has all rows of a key in the same subtask.
    """

    _foreign_names = ("keyed_stream", "every_stream")
    _next_step = (
        "preview() shows first rows; aggregate(...) computes per key, window(...).aggregate(...) per key and window"
    )

    def __init__(
        self, program: Program, inputs: tuple[Input, ...], row_type: StreamType, keys: tuple[Column | str, ...]
    ) -> None:
        code = KeyByCode(columns=keys)
        super().__init__(program, partitioned(inputs, ShipStrategy.HASH, code), row_type)
        self._keys = keys

    def _windowed(self, settings: WindowSettings) -> WindowedStream:
        return WindowedStream(self, settings)

    def _running(self, name: str, columns: tuple[Column, ...]) -> DataStream:
        prototype = self._type.prototype
        result, plan = tried(name, lambda: running(prototype, self._keys, columns))
        code = GroupAggregateCode(plan=plan)
        made = add_aggregates(self._program, name, code, self._inputs)
        return DataStream(self._program, made, StreamType(prototype=result, event_time=None).emitted_by(code))


class NonParallelStream(_Stream, WindowVerbs[AllWindowedStream], KeyedRows):
    """The rows of a stream in one subtask, to be cut into windows all together."""

    _keys = ()

    def _windowed(self, settings: WindowSettings) -> AllWindowedStream:
        return AllWindowedStream(self, settings)

    def _emitted(
        self, made: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> DataStream:
        made.parallelism_limit = 1
        return super()._emitted(made, row_type, side_outputs)
