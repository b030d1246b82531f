"""Creates streams from sources, for `from_source` and `from_dataframe`."""

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
    if not isinstance(source, Source):
        raise ProgramError(f"from_source takes a source such as FileSource.parquet(path), not {source!r}")
    chosen = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
    strategy = checked_strategy(chosen)
    delay_ms = strategy.delay_ms
    operator = Transformation(
        kind=OperatorKind.SOURCE,
        position=program.next_position,
        name=name or str(source),
        code=SourceCode(source=source, watermark_delay_ms=delay_ms),
        explicit_uid=uid,
    )
    operator.parallelism_limit = source.parallelism_limit
    set_watermarks(operator, strategy)
    event_time = strategy.timestamp_column or source.event_time
    if event_time is None and delay_ms is not None:
        raise StreamTypeError(f"{operator}: watermarks need an event time: with_timestamp_column(...) names its column")
    try:
        bound, prototype, event_time = _bound(session, source, event_time)
        check_condition(prototype, strategy.punctuation)
    except PrototypeError as misfit:
        raise StreamTypeError(f"{operator}: {misfit}") from None
    operator.code = SourceCode(
        source=bound,
        watermark_delay_ms=delay_ms,
        watches_order=watches_order(strategy),
        punctuation=strategy.punctuation,
    )
    program.add(operator)
    side_output = bound.side_output
    aside = None
    if side_output is not None:
        put_aside = StreamType(prototype=declared_rows(session, side_output.columns), event_time=None)
        aside = OwnOutputs(operator, {OutputTag(side_output.tag): (side_output.tag, put_aside)})
    windowable = None if event_time is None or delay_ms is None else EventTime(column=event_time)
    rows = StreamType(prototype=prototype, event_time=windowable)
    return DataStream(Dataflow(program=program, inputs=(Input(source=operator),), type=rows, side_outputs=aside))


class ComputedFrames:
    """The computed DataFrames of an environment, each retained until the job that reads it has ended."""

    def __init__(self) -> None:
        self._kept: list[tuple[ComputedFrame, JobClient | None]] = []

    def keep(self, session: SparkSession, frame: object) -> ComputedFrame:
        """Register a DataFrame to be computed for the next job.

        Raises:
            ProgramError: `frame` is not a DataFrame, is streaming, or belongs to another Spark session.
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
        """Compute again the DataFrames that were freed with their job but are needed to fill a cached stream."""
        retained = [computed for computed, _ in self._kept]
        for operator in operators:
            if isinstance(operator.code, SourceCode) and isinstance(operator.code.source, DataFrameSource):
                computed = operator.code.source.computed
                if computed not in retained:
                    computed.compute()
                    self._kept.append((computed, None))

    def belong_to(self, client: JobClient) -> None:
        self._kept = [(computed, reader or client) for computed, reader in self._kept]

    def free_finished(self) -> None:
        finished = [retained for retained in self._kept if retained[1] is not None and retained[1].done()]
        for computed, _ in finished:
            computed.free()
        self._kept = [retained for retained in self._kept if retained not in finished]

    def free(self) -> None:
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
