"""Accumulators: what user code counts for itself, per attempt and, merged, per job (Flink's)."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.message import Value, value


class AccumulatorType(StrEnum):
    """The kinds of accumulators, by Flink's names. Two of one name must be of one kind."""

    INT_COUNTER = "IntCounter"
    LONG_COUNTER = "LongCounter"
    DOUBLE_COUNTER = "DoubleCounter"
    HISTOGRAM = "Histogram"
    GAUGE = "Gauge"


@value("accumulator.histogram_count")
class HistogramCount(Value):
    """A number and how often it was added to a histogram."""

    number: int
    count: int


@value("accumulator.snapshot")
class AccumulatorSnapshot(Value):
    """An accumulator at one moment.

    A counter of ints has a `count`, one of floats and a gauge a `total`, a histogram `counts`.
    """

    name: str
    type: AccumulatorType
    count: int = 0
    total: float = 0.0
    counts: tuple[HistogramCount, ...] = ()


@value("accumulator.failed_result")
class FailedAccumulatorResult(Value):
    """An accumulator that could not be merged, and why."""

    name: str
    reason: str


@value("accumulator.results")
class AccumulatorResults(Value):
    """The accumulators of a job, each merged over all subtasks."""

    merged: tuple[AccumulatorSnapshot, ...] = ()
    failed: tuple[FailedAccumulatorResult, ...] = ()
