"""Functions with a lifecycle, with Flink's names: RichFunction and its RuntimeContext."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources, WithJobResources
from flykka.spark_bridge.functions.metric_group import MetricGroup
from flykka.spark_bridge.program.accumulators import (
    Accumulator,
    AccumulatorRegistry,
    DoubleCounter,
    Histogram,
    IntCounter,
    LongCounter,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.messages.wire.ids import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext(WithJobResources):
    """The subtask in which a function runs.

    `session` is the Spark session of the batches. When the program is built, a function is opened as a test: as subtask
    0 of 1, without a job.
    """

    uid: str
    task_name: str
    session: SparkSession
    job_id: JobId | None = None
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1
    max_number_of_parallel_subtasks: int = 1
    attempt_number: int = 0
    _accumulators: AccumulatorRegistry = field(default_factory=AccumulatorRegistry, repr=False, compare=False)
    _metrics: MetricGroup = field(default_factory=MetricGroup, repr=False, compare=False)
    _resources: JobResources = field(default=NO_RESOURCES, repr=False, compare=False)

    @property
    def task_name_with_subtasks(self) -> str:
        """The task's name with the number of the subtask, counted from 1: `clean (1/2)`."""
        return f"{self.task_name} ({self.index_of_this_subtask + 1}/{self.number_of_parallel_subtasks})"

    def get_metrics_group(self) -> MetricGroup:
        """Return the metrics of the operator, which may be used wherever the function's code runs, except for gauges.

        Gauges are read in the driver after each call. An exception of a gauge fails the attempt.
        """
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Register an accumulator of the job as `name`. Its result is the sum over all subtasks.

        It starts at zero in every attempt, and may be added to wherever the function's code runs.

        Raises:
            AccumulatorConflictError: the task already has an accumulator with this name.
        """
        self._accumulators.add(name, accumulator, self._spark)

    def get_accumulator(self, name: str) -> Accumulator[Any] | None:
        """Return the accumulator with this name in this task, or None."""
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the counter with this name, added if needed. Raises `AccumulatorConflictError` for another type."""
        return self._accumulators.get_or_add(name, IntCounter, self._spark)

    def get_long_counter(self, name: str) -> LongCounter:
        """Return a counter, like `get_int_counter`."""
        return self._accumulators.get_or_add(name, LongCounter, self._spark)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return a counter of floats, like `get_int_counter`."""
        return self._accumulators.get_or_add(name, DoubleCounter, self._spark)

    def get_histogram(self, name: str) -> Histogram:
        """Return a histogram, which counts how often each number was added. Otherwise like `get_int_counter`."""
        return self._accumulators.get_or_add(name, Histogram, self._spark)

    def _job_resources(self) -> JobResources:
        return self._resources

    @property
    def _spark(self) -> SparkContext:
        return self.session.sparkContext


class RichFunction(ABC):
    """A function of batches for `transform`, opened before the first batch and closed after the last.

    Each execution attempt of each subtask uses a separate shallow copy, made before `open`: attributes set in `open`
    belong to that attempt. Batches are passed one at a time, complete and in order, always on threads of the driver.
    The computation of a batch runs on the executors after `__call__` has returned its plan. Attributes are not in
    checkpoints and are lost with the attempt, unless the function is also a `CheckpointedFunction`.

    In a chain, functions are opened from the last to the first, so that the functions downstream are ready, and closed
    in the same order. `close` is called once, whether the attempt finishes, fails or is cancelled, and even if `open`
    has raised, so some resources may be missing. Exceptions of `open`, and of `close` at the end of an attempt that was
    about to finish, fail the attempt; exceptions of `close` after a failure are logged.

    When the program is built, the function is called with zero rows to determine its columns: a copy of it is opened,
    called once and closed. If `open` should not be called then, declare the columns in `schema` instead.
    """

    schema: StructType | str | None = None
    """The columns of the result, a StructType or DDL: `"id long, name string"`; None: determined by a test call."""

    def open(self, context: RuntimeContext) -> None:  # noqa: B027 - a hook: most functions need only one of the two
        """Prepare for the first batch."""

    def close(self) -> None:  # noqa: B027 - a hook
        """Release the resources of `open`."""

    @abstractmethod
    def __call__(self, rows: DataFrame) -> DataFrame:
        """Return the result for `rows`. The call need not run a Spark job."""
