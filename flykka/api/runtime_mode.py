"""The mode of a program: stream or batch job (Flink's RuntimeExecutionMode)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import JobType
from flykka.spark_bridge.connectors.source import Boundedness
from flykka.spark_bridge.operators.code import SourceCode

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
        ProgramError: it is to be a batch job, and a source never ends; the text names the source.
    """
    if mode is RuntimeExecutionMode.STREAMING:
        return JobType.STREAMING
    unbounded = [made for made in transformations if is_unbounded(made)]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise ProgramError(
            f"the program is to run in BATCH mode, and the source {unbounded[0]} has no end: read what is there now,"
            " without monitor_continuously(...) and with a number of rows, or set the runtime mode to STREAMING"
        )
    return JobType.STREAMING if unbounded else JobType.BATCH


def is_unbounded(made: Transformation) -> bool:
    """True if an operator is a source that has no end."""
    return isinstance(made.code, SourceCode) and made.code.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
