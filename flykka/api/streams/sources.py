"""From a source to a stream: what `from_source` and `from_dataframe` write down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.dataflow import Dataflow
from flykka.api.streams.side_outputs import OutputTag, OwnOutputs
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.transformation import Input, Transformation
from flykka.api.streams.watermark_strategy import WatermarkStrategy, checked_strategy, set_watermarks, watches_order
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.connectors.dataframe import ComputedFrame, DataFrameSource
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.program.prototype import (
    DataFrame,
    PrototypeError,
    check_condition,
    check_types,
    event_time_column,
)
from flykka.spark_bridge.program.source import Source
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flykka.api.streams.program import Program
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.program.prototype import SparkSession


def source_stream(
    program: Program,
    session: SparkSession,
    source: Source,
    watermark_strategy: WatermarkStrategy | None,
    name: str | None,
    uid: str | None,
) -> DataStream:
    """Add `source` to the program; the stream of its rows.

    Raises:
        ProgramError: this is no source, or no watermark strategy, or the uid is empty.
        StreamTypeError: what the source declares does not make rows, or not with this event time.
        DuplicateUidError: another operator has the uid.
        SourceError: there is nothing to take a schema from.
    """
    if not isinstance(source, Source):
        raise ProgramError(f"from_source takes a source such as FileSource.parquet(path), not {source!r}")
    given = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
    strategy = checked_strategy(given)
    delay_ms = strategy.delay_ms
    made = Transformation(
        kind=OperatorKind.SOURCE,
        position=program.next_position,
        name=name or str(source),
        code=SourceCode(source=source, watermark_delay_ms=delay_ms),
        explicit_uid=uid,
    )
    made.parallelism_limit = source.parallelism_limit
    set_watermarks(made, strategy)
    event_time = strategy.timestamp_column or source.event_time
    if event_time is None and delay_ms is not None:
        raise StreamTypeError(f"{made}: watermarks need an event time: with_timestamp_column(...) names its column")
    try:
        bound, prototype, event_time = _bound(session, source, event_time)
        check_condition(prototype, strategy.punctuation)
    except PrototypeError as misfit:
        raise StreamTypeError(f"{made}: {misfit}") from None
    made.code = SourceCode(
        source=bound,
        watermark_delay_ms=delay_ms,
        watches_order=watches_order(strategy),
        punctuation=strategy.punctuation,
    )
    program.add(made)
    side_output = bound.side_output
    aside = None
    if side_output is not None:
        put_aside = StreamType(prototype=declared_rows(session, side_output.columns), event_time=None)
        aside = OwnOutputs(made, {OutputTag(side_output.tag): (side_output.tag, put_aside)})
    windowable = None if event_time is None or delay_ms is None else EventTime(column=event_time)
    rows = StreamType(prototype=prototype, event_time=windowable)
    return DataStream(Dataflow(program=program, inputs=(Input(source=made),), type=rows, side_outputs=aside))


class ComputedFrames:
    """The DataFrames of an environment whose rows are kept, each until the job that reads it is over."""

    def __init__(self) -> None:
        self._kept: list[tuple[ComputedFrame, JobClient | None]] = []

    def keep(self, session: SparkSession, frame: object) -> ComputedFrame:
        """A DataFrame that is to be computed, for the next job.

        Raises:
            ProgramError: it is none, or none of this Spark that can be read to its end.
        """
        if not isinstance(frame, DataFrame):
            raise ProgramError(f"from_dataframe needs a DataFrame of Spark, not a {type(frame).__name__}")
        if frame.isStreaming:
            raise ProgramError("from_dataframe needs a DataFrame that ends, not a streaming one")
        if frame.sparkSession.sparkContext is not session.sparkContext:
            raise ProgramError("from_dataframe needs a DataFrame of this environment's Spark, not of another one")
        computed = ComputedFrame(frame)
        self._kept.append((computed, None))
        return computed

    def compute_again(self, operators: Iterable[Transformation]) -> None:
        """Compute what is read once more, for rows that are to be cached, and was freed with the job that read it."""
        kept = [computed for computed, _ in self._kept]
        for made in operators:
            if isinstance(made.code, SourceCode) and isinstance(made.code.source, DataFrameSource):
                computed = made.code.source.computed
                if computed not in kept:
                    computed.compute()
                    self._kept.append((computed, None))

    def belong_to(self, client: JobClient) -> None:
        """All that belong to no job yet are read by this one."""
        self._kept = [(computed, reader or client) for computed, reader in self._kept]

    def free_finished(self) -> None:
        """Free what was read by jobs that are over."""
        over = [kept for kept in self._kept if kept[1] is not None and kept[1].done()]
        for computed, _ in over:
            computed.free()
        self._kept = [kept for kept in self._kept if kept not in over]

    def free(self) -> None:
        """Free all."""
        for computed, _ in self._kept:
            computed.free()
        self._kept = []


def _bound(session: SparkSession, source: Source, event_time: str | None) -> tuple[Source, DataFrame, str | None]:
    bound = source.bound(session, event_time)
    prototype = bound.prototype(session)
    check_types(prototype.schema, Use.STREAM)
    if event_time is None:
        return bound, prototype, None
    column = event_time_column(prototype, event_time)
    return bound if column == event_time else source.bound(session, column), prototype, column
