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

    STREAMING: all tasks run at once, and rows are forwarded as they are produced. BATCH: a task starts when its input
    is complete, which requires bounded sources. AUTOMATIC: BATCH if all sources are bounded, else STREAMING.
    """

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


def job_type(mode: RuntimeExecutionMode, transformations: Iterable[Transformation]) -> JobType:
    """Return the job type of a program with these operators.

    Raises:
        ProgramError: an unbounded source in BATCH mode, or a cached stream in a streaming job; the error names it.
    """
    transformations = tuple(transformations)
    unbounded = [operator for operator in transformations if is_unbounded(operator)]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise ProgramError(
            f"the program must run in BATCH mode, but the source {unbounded[0]} has no end: read only existing rows,"
            " without monitor_continuously(...) and with a number of rows, or set the runtime mode to STREAMING"
        )
    if mode is not RuntimeExecutionMode.STREAMING and not unbounded:
        return JobType.BATCH
    cached = next((operator for operator in transformations if _is_cached(operator)), None)
    if cached is not None:
        because = f", and the source {unbounded[0]} has no end" if unbounded else ""
        raise ProgramError(
            f"{cached.name!r} ({cached.call_site}): cache() works only in batch jobs, and this is a streaming"
            f" job{because}: set_runtime_mode('BATCH') makes it a batch job"
        )
    return JobType.STREAMING


def _is_cached(operator: Transformation) -> bool:
    return isinstance(operator.code, CacheCode) or (
        isinstance(operator.code, SourceCode) and isinstance(operator.code.source, DatasetSource)
    )


def is_unbounded(operator: Transformation) -> bool:
    return (
        isinstance(operator.code, SourceCode) and operator.code.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    )
