"""Accumulators of functions, in the driver and on the executors, with Flink's names.

Each uses a Spark accumulator, so it may be used in any code that a function passes to Spark, such as a user-defined
function or `mapInPandas`. The values that a Spark task adds count once, when that task succeeds. A Spark task that runs
again after it has succeeded, because its result was lost, adds them again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType, HistogramCount
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import AccumulatorConflictError
from flykka.spark_bridge.functions.metric_group import MetricKind, MetricSample

if TYPE_CHECKING:
    from pyspark import Accumulator as SparkAccumulator
    from pyspark import SparkContext
    from pyspark.accumulators import AccumulatorParam

V = TypeVar("V", int, float)
A = TypeVar("A", bound="Accumulator[Any]")


class Accumulator(ABC, Generic[V]):
    """Base class of accumulators. Create one and register it in `open` with `RuntimeContext.add_accumulator`."""

    type: AccumulatorType

    def __init__(self) -> None:
        self._spark: SparkAccumulator[Any] | None = None

    def add(self, value: V) -> None:
        """Add `value`. Raises `AccumulatorConflictError` if the accumulator is not registered."""
        self._add_term(self._term(value))

    def _add_term(self, term: Any) -> None:
        if self._spark is None:
            raise AccumulatorConflictError(
                f"this {self.type} is not registered: context.add_accumulator(name, accumulator) does it, in open()"
            )
        self._spark.add(term)

    def add_sample(self, sample: MetricSample) -> None:
        """Add a sample of a metric: its count, unless the metric's class defines otherwise."""
        self._add_term(sample.count)

    def _term(self, value: V) -> Any:
        return value

    @abstractmethod
    def _register(self, context: SparkContext) -> None: ...

    @abstractmethod
    def _snapshot(self, name: str) -> AccumulatorSnapshot: ...


class _IntAccumulator(Accumulator[int]):
    def get_local_value(self) -> int:
        """Return the sum of this attempt so far. May only be called in the driver."""
        return 0 if self._spark is None else int(self._spark.value)

    def _register(self, context: SparkContext) -> None:
        self._spark = context.accumulator(0)

    def _snapshot(self, name: str) -> AccumulatorSnapshot:
        return AccumulatorSnapshot(name=name, type=self.type, count=self.get_local_value())


class IntCounter(_IntAccumulator):
    """The sum of ints, which are unlimited in Python."""

    type = AccumulatorType.INT_COUNTER


class LongCounter(_IntAccumulator):
    """The sum of ints. It counts like `IntCounter`, and exists because Flink has both names."""

    type = AccumulatorType.LONG_COUNTER


class MeterCount(_IntAccumulator):
    """The count of a meter's events, from which a rate is computed later."""

    type = AccumulatorType.METER


class DoubleCounter(Accumulator[float]):
    """The sum of floats."""

    type = AccumulatorType.DOUBLE_COUNTER

    def get_local_value(self) -> float:
        """Return the sum of this attempt so far. May only be called in the driver."""
        return 0.0 if self._spark is None else float(self._spark.value)

    def _register(self, context: SparkContext) -> None:
        self._spark = context.accumulator(0.0)

    def _snapshot(self, name: str) -> AccumulatorSnapshot:
        return AccumulatorSnapshot(name=name, type=self.type, total=self.get_local_value())


class Histogram(Accumulator[int]):
    """The count of each int that was added."""

    type = AccumulatorType.HISTOGRAM

    def get_local_value(self) -> dict[int, int]:
        """Return the counts of this attempt so far, by number. May only be called in the driver."""
        return {} if self._spark is None else dict(sorted(self._spark.value.items()))

    def add_sample(self, sample: MetricSample) -> None:
        if sample.counts:
            self._add_term(Counter(sample.counts))

    def _term(self, value: int) -> Counter[int]:
        return Counter({int(value): 1})

    def _register(self, context: SparkContext) -> None:
        self._spark = context.accumulator(Counter(), cast("AccumulatorParam[Counter[int]]", CountsParam()))

    def _snapshot(self, name: str) -> AccumulatorSnapshot:
        counts = (HistogramCount(number=number, count=count) for number, count in self.get_local_value().items())
        return AccumulatorSnapshot(name=name, type=self.type, counts=tuple(counts))


class GaugeValue(Accumulator[float]):
    """The last value that was added; over several subtasks, the sum of their last values."""

    type = AccumulatorType.GAUGE

    def add_sample(self, sample: MetricSample) -> None:
        self.add(sample.value)

    def _register(self, context: SparkContext) -> None:
        self._spark = context.accumulator(None, cast("AccumulatorParam[float | None]", LastParam()))

    def _snapshot(self, name: str) -> AccumulatorSnapshot:
        value = None if self._spark is None else self._spark.value
        return AccumulatorSnapshot(name=name, type=self.type, total=0.0 if value is None else float(value))


class LastParam:
    """Implements Spark's `AccumulatorParam`: the last value wins."""

    def zero(self, value: float | None) -> None: ...

    def addInPlace(self, value1: float | None, value2: float | None) -> float | None:
        return value1 if value2 is None else value2


class CountsParam:
    """Implements Spark's `AccumulatorParam`, without a base class so that rich functions need not import PySpark."""

    def zero(self, value: Counter[int]) -> Counter[int]:
        return Counter()

    def addInPlace(self, value1: Counter[int], value2: Counter[int]) -> Counter[int]:
        """Return the sum as a new object, because another thread may be reading `value1`."""
        return value1 + value2


ACCUMULATORS: Mapping[MetricKind, type[Accumulator[Any]]] = {
    MetricKind.COUNTER: LongCounter,
    MetricKind.METER: MeterCount,
    MetricKind.HISTOGRAM: Histogram,
    MetricKind.GAUGE: GaugeValue,
}


class MetricScope(NamedTuple):
    """`name` is the user's name for the operator."""

    operator_id: OperatorId
    name: str


class AccumulatorRegistry:
    """Accumulators of an attempt, by name (Flink's AccumulatorRegistry). Thread-safe.

    Metrics are registered by operator and, for reports, by a name that begins with the operator's name.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._accumulators: dict[tuple[str, MetricScope | None], Accumulator[Any]] = {}

    def add(self, name: str, accumulator: Accumulator[Any], context: SparkContext) -> None:
        """Register an accumulator. Raises `AccumulatorConflictError` for another object, or if the name is taken."""
        if not isinstance(accumulator, Accumulator):
            raise AccumulatorConflictError(
                f"{name!r} must be registered with an accumulator, not a {type(accumulator).__name__}"
            )
        with self._lock:
            if (name, None) in self._accumulators:
                raise AccumulatorConflictError(
                    f"the accumulator {name!r} exists already in this task and cannot be added"
                )
            accumulator._register(context)
            self._accumulators[name, None] = accumulator

    def get(self, name: str) -> Accumulator[Any] | None:
        with self._lock:
            return self._accumulators.get((name, None))

    def get_or_add(self, name: str, kind: type[A], context: SparkContext, scope: MetricScope | None = None) -> A:
        """Return an accumulator, which is added if needed; a metric has a `scope`. Raises `AccumulatorConflictError` if
        the existing accumulator has another type.
        """
        with self._lock:
            accumulator = self._accumulators.get((name, scope))
            if accumulator is None:
                accumulator = self._accumulators[name, scope] = kind()
                accumulator._register(context)
        if not isinstance(accumulator, kind):
            raise AccumulatorConflictError(
                f"the accumulator {name!r} is of kind {accumulator.type}, but was requested as {kind.__name__}"
            )
        return accumulator

    def snapshot(self) -> tuple[AccumulatorSnapshot, ...]:
        with self._lock:
            accumulators = dict(self._accumulators)
        return tuple(
            accumulator._snapshot(name) if scope is None else _of_metric(accumulator._snapshot(name), scope)
            for (name, scope), accumulator in accumulators.items()
        )


def _of_metric(snapshot: AccumulatorSnapshot, scope: MetricScope) -> AccumulatorSnapshot:
    return replace(
        snapshot, name=f"{scope.name}.{snapshot.name}", operator_id=scope.operator_id, operator_name=scope.name
    )
