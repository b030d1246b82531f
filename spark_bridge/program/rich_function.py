"""Functions with a life around their batches, by Flink's names: RichFunction and its RuntimeContext."""

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
    """The subtask that a function works in, as far as the function may know it.

    `session` is the Spark session of the batches. A function that is opened only to be tried, where the program is
    written, is subtask 0 of 1 of no job yet.
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
        """The task's name and its subtask, counted from 1: `clean (1/2)`."""
        return f"{self.task_name} ({self.index_of_this_subtask + 1}/{self.number_of_parallel_subtasks})"

    def get_metrics_group(self) -> MetricGroup:
        """The metrics of the operator: to be used wherever the function's code runs, but for gauges.

        A gauge is read in the driver, behind each call. What it raises fails the attempt.
        """
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Let the job have this accumulator as `name`: its result is the sum over all subtasks.

        It begins at zero with every attempt, and may be added to wherever the function's code runs.

        Raises:
            AccumulatorConflictError: the task has one of this name already.
        """
        self._accumulators.add(name, accumulator, self._spark)

    def get_accumulator(self, name: str) -> Accumulator[Any] | None:
        """The accumulator of this name in this task; None where there is none."""
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """The counter of this name, added if need be. Raises `AccumulatorConflictError` where it is of another kind."""
        return self._accumulators.get_or_add(name, IntCounter, self._spark)

    def get_long_counter(self, name: str) -> LongCounter:
        """As `get_int_counter`."""
        return self._accumulators.get_or_add(name, LongCounter, self._spark)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """As `get_int_counter`, for floats."""
        return self._accumulators.get_or_add(name, DoubleCounter, self._spark)

    def get_histogram(self, name: str) -> Histogram:
        """As `get_int_counter`, for how often each number was added."""
        return self._accumulators.get_or_add(name, Histogram, self._spark)

    def _job_resources(self) -> JobResources:
        return self._resources

    @property
    def _spark(self) -> SparkContext:
        return self.session.sparkContext


class RichFunction(ABC):
    """A function of batches that is opened before the first one and closed behind the last: for `transform`.

    Every execution attempt of every subtask works with a shallow copy of its own, made before `open`: what is set in
    `open` belongs to that attempt. Batches are given one at a time, whole, in their order, and always on threads of the
    driver; what a batch computes runs on the executors, after `__call__` has returned its plan. What a function keeps
    is in no checkpoint, and gone with the attempt, unless it is a `CheckpointedFunction` too.

    In a chain, functions are opened from the last to the first, so that each finds those behind it ready, and closed
    in the same order. `close` is called once, however the attempt ends: finished, failed or cancelled; also when
    `open` has raised, and so may find things half made. What `open` raises, or `close` at the end of an attempt
    that was about to finish, fails the attempt; what `close` raises after a failure is logged.

    Where the program is written the function is tried on no rows, to learn its columns: a copy of it is opened, called
    once and closed. A function whose `open` is better not called there declares its columns in `schema` instead.
    """

    schema: StructType | str | None = None
    """The columns of its result (a StructType, or DDL as in `"id long, name string"`); None: found by trying."""

    def open(self, context: RuntimeContext) -> None:  # noqa: B027 - a hook: most functions need only one of the two
        """Get ready for the first batch."""

    def close(self) -> None:  # noqa: B027 - a hook
        """Let go of what `open` took."""

    @abstractmethod
    def __call__(self, rows: DataFrame) -> DataFrame:
        """Rows in, rows out: no Spark job needs to run here."""
