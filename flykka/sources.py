"""From a source to a stream: what `from_source` and `from_dataframe` write down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.data_stream import DataStream, StreamType
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.job_graph import OperatorKind
from flykka.spark_bridge.code import SourceCode
from flykka.spark_bridge.prototype import DataFrame, PrototypeError, check_event_time
from flykka.spark_bridge.sources.dataframe_source import ComputedFrame
from flykka.transformation import Transformation
from flykka.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from flykka.program import Program
    from flykka.spark_bridge.prototype import SparkSession
    from flykka.spark_bridge.sources.source import Source


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
        StreamTypeError: what the source declares does not make rows, or not with this event time.
        DuplicateUidError: another operator has the uid.
        SourceError: there is nothing to take a schema from.
    """
    strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
    delay_ms = strategy.delay_ms
    made = Transformation(
        kind=OperatorKind.SOURCE,
        position=program.next_position,
        name=name or str(source),
        code=SourceCode(source=source, watermark_delay_ms=delay_ms),
        watermark_delay_ms=delay_ms,
        idle_timeout_ms=strategy.idle_timeout_ms,
        explicit_uid=uid,
    )
    event_time = strategy.timestamp_column or source.event_time
    if event_time is None and delay_ms is not None:
        raise StreamTypeError(f"{made}: watermarks need an event time: with_timestamp_column(...) names its column")
    try:
        bound, prototype = _bound(session, source, event_time)
    except PrototypeError as misfit:
        raise StreamTypeError(f"{made}: {misfit}") from misfit
    made.code = SourceCode(source=bound, watermark_delay_ms=delay_ms)
    program.add(made)
    windowable = event_time if delay_ms is not None else None
    return DataStream(program, made, StreamType(prototype=prototype, event_time=windowable))


def computed_frame(session: SparkSession, frame: object) -> ComputedFrame:
    """The DataFrame, to be computed. Raises `ProgramError` where it is none, or none that can be read to its end."""
    if not isinstance(frame, DataFrame):
        raise ProgramError(f"from_dataframe needs a DataFrame of Spark, not a {type(frame).__name__}")
    if frame.isStreaming:
        raise ProgramError("from_dataframe needs a DataFrame that ends, not a streaming one")
    if frame.sparkSession.sparkContext is not session.sparkContext:
        raise ProgramError("from_dataframe needs a DataFrame of this environment's Spark, not of another one")
    return ComputedFrame(frame)


def _bound(session: SparkSession, source: Source, event_time: str | None) -> tuple[Source, DataFrame]:
    bound = source.bound(session, event_time)
    prototype = bound.prototype(session)
    if event_time is not None:
        check_event_time(prototype, event_time)
    return bound, prototype
