"""Accumulators: what user code counts for itself, per attempt and, merged, per job (Flink's)."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value, value


class AccumulatorType(StrEnum):
    """The kinds of accumulators, by Flink's names. Two of one name must be of one kind."""

    INT_COUNTER = "IntCounter"
    LONG_COUNTER = "LongCounter"
    DOUBLE_COUNTER = "DoubleCounter"
    HISTOGRAM = "Histogram"
    GAUGE = "Gauge"
    METER = "Meter"


@value("accumulator.histogram_count")
class HistogramCount(Value):
    """A number and how often it was added to a histogram."""

    number: int
    count: int


@value("accumulator.snapshot")
class AccumulatorSnapshot(Value):
    """An accumulator at one moment.

    A counter of ints has a `count`, and so has a meter; one of floats and a gauge have a `total`, a histogram `counts`.
    A metric tells its operator, whose name and a point its `name` begins with. The rate of a meter is told with the
    subtasks of a vertex: of the last seconds, by the times at which its counts came.
    """

    name: str
    type: AccumulatorType
    count: int = 0
    total: float = 0.0
    counts: tuple[HistogramCount, ...] = ()
    operator_id: OperatorId | None = None
    operator_name: str = ""
    per_second: float = 0.0

    @property
    def metric_name(self) -> str:
        """The name of a metric, with those of its groups before it and points between."""
        return self.name.removeprefix(f"{self.operator_name}.")


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
