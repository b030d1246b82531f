"""The mode of a program: stream or batch job (Flink's RuntimeExecutionMode)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import JobType
from flykka.spark_bridge.connectors.dataset import CacheCode, DatasetSource
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.program.source import Boundedness

if TYPE_CHECKING:
    from flykka.api.streams.transformation import Transformation


class RuntimeExecutionMode(StrEnum):
    """The mode in which a program is executed.

    STREAMING: all tasks run at once, and rows go on as they are made. BATCH: each part begins when what it reads is
    whole, which a program can only do whose sources come to an end. AUTOMATIC: BATCH where they do, else STREAMING.
    """

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


def job_type(mode: RuntimeExecutionMode, transformations: Iterable[Transformation]) -> JobType:
    """The type of job that a program of these operators becomes.

    Raises:
        ProgramError: it is to be a batch job, and a source never ends; or it is none, and reads a cached stream. The
            text names the source or the stream.
    """
    transformations = tuple(transformations)
    unbounded = [made for made in transformations if is_unbounded(made)]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise ProgramError(
            f"the program is to run in BATCH mode, and the source {unbounded[0]} has no end: read what is there now,"
            " without monitor_continuously(...) and with a number of rows, or set the runtime mode to STREAMING"
        )
    if mode is not RuntimeExecutionMode.STREAMING and not unbounded:
        return JobType.BATCH
    cached = next((made for made in transformations if _is_cached(made)), None)
    if cached is not None:
        because = f", and the source {unbounded[0]} has no end" if unbounded else ""
        raise ProgramError(
            f"{cached.name!r} ({cached.call_site}): rows are kept by cache(), and read again, in batch jobs alone, and"
            f" this is a streaming one{because}: set_runtime_mode('BATCH') makes it one"
        )
    return JobType.STREAMING


def _is_cached(made: Transformation) -> bool:
    """True of a cached stream, whether its rows are to be kept or are read."""
    return isinstance(made.code, CacheCode) or (
        isinstance(made.code, SourceCode) and isinstance(made.code.source, DatasetSource)
    )


def is_unbounded(made: Transformation) -> bool:
    """True if an operator is a source that has no end."""
    return isinstance(made.code, SourceCode) and made.code.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
