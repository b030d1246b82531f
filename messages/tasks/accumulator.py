"""Accumulators: values that user code collects, per attempt and, merged, per job (as in Flink)."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value, value


class AccumulatorType(StrEnum):
    """The types of accumulators, with Flink's names. Accumulators with the same name must have the same type."""

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
    """The current value of an accumulator.

    Counters of ints and meters have a `count`, counters of floats and gauges a `total`, histograms `counts`. A metric
    names its operator, and its `name` starts with the operator's name and a point. The rate of a meter is reported for
    the subtasks of a vertex, over the last seconds before the last report.
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
        """The name of a metric with the names of its groups, separated by points."""
        return self.name.removeprefix(f"{self.operator_name}.")


@value("accumulator.failed_result")
class FailedAccumulatorResult(Value):
    """An accumulator that could not be merged, and the reason."""

    name: str
    reason: str


@value("accumulator.results")
class AccumulatorResults(Value):
    """The accumulators of a job, each merged over all subtasks."""

    merged: tuple[AccumulatorSnapshot, ...] = ()
    failed: tuple[FailedAccumulatorResult, ...] = ()
