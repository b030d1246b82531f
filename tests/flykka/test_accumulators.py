"""Accumulators of rich functions, from the Python workers and the driver to the result of the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession

from flykka import (
    DoubleCounter,
    FileSink,
    RestartStrategies,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flykka.errors import JobExecutionError
from flykka.spark_bridge.errors import AccumulatorConflictError
from flykka.spark_bridge.program.accumulators import AccumulatorRegistry, IntCounter, LongCounter

pytestmark = pytest.mark.spark


class Counting(RichFunction):
    """Counts rows on the executors, and batches on the driver. The first attempt fails."""

    schema = "id long"

    def open(self, context: RuntimeContext) -> None:
        self.is_first = context.attempt_number == 0
        self.rows = context.get_long_counter("rows")
        self.sizes = context.get_histogram("rows by remainder")
        self.batches = context.get_int_counter("batches")
        self.closed = DoubleCounter()
        context.add_accumulator("closed", self.closed)
        metrics = context.get_metrics_group()
        self.seen = metrics.counter("seen")
        self.planned = metrics.meter("planned")
        self.remainders = metrics.add_group("by").histogram("remainder")
        metrics.gauge("batches", self.batches.get_local_value)

    def close(self) -> None:
        self.closed.add(0.5)

    def __call__(self, rows: DataFrame) -> DataFrame:
        if self.is_first and self.batches.get_local_value() == 1:
            raise OSError("not at the first try")
        self.batches.add(1)
        self.planned.mark_event()
        # A worker does not start with the driver's count.
        self.seen.inc(100)
        counted, sizes, seen, remainders = self.rows, self.sizes, self.seen, self.remainders

        def count(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    counted.add(1)
                    sizes.add(number % 3)
                    remainders.update(number % 3)
                    seen.inc(2)
                    seen.dec()
                assert seen.get_count() == batch.num_rows
                yield batch

        return rows.mapInArrow(count, "id long")


@pytest.mark.slow
@pytest.mark.integration
def test_only_finished_attempts_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    with StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=2) as env:
        env.set_checkpoint_dir(str(tmp_path / "checkpoints")).set_parallelism(2)
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, "10ms"))
        numbers = env.from_dataframe(spark.range(0, 90, 1, 6), uid="numbers", partitions_per_batch=1)
        numbers.transform(Counting()).uid("counting").sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")

        client = env.execute_async("counting")
        result = client.wait()

        assert client.get_accumulators() == result.accumulator_results
    assert result.accumulator_results == {
        "rows": 90,
        "rows by remainder": {0: 30, 1: 30, 2: 30},
        "batches": 6,
        "closed": 1.0,
        "counting.seen": 690,
        "counting.planned": 6,
        "counting.by.remainder": {0: 30, 1: 30, 2: 30},
        "counting.batches": 6.0,
    }


class Unreadable(RichFunction):
    """Has a gauge that cannot be read."""

    schema = "id long"

    def open(self, context: RuntimeContext) -> None:
        context.get_metrics_group().gauge("queue", self._length)

    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows

    def _length(self) -> float:
        raise OSError("there is no queue")


@pytest.mark.slow
@pytest.mark.integration
def test_a_gauge_that_cannot_be_read_fails_its_operator(spark: SparkSession, tmp_path: Path) -> None:
    with StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=2) as env:
        env.set_restart_strategy(RestartStrategies.no_restart())
        numbers = env.from_dataframe(spark.range(3), uid="numbers")
        numbers.transform(Unreadable()).uid("reading").sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")

        with pytest.raises(JobExecutionError, match=r"operator 'reading' .*there is no queue"):
            env.execute("reading")


def context(spark: SparkSession) -> RuntimeContext:
    return RuntimeContext(uid="u", task_name="t", session=spark)


def test_accumulators_of_one_name_are_the_same_object(spark: SparkSession) -> None:
    made = context(spark)
    counter = made.get_int_counter("rows")
    counter.add(2)

    made.get_int_counter("rows").add(3)

    assert counter.get_local_value() == 5
    assert made.get_accumulator("rows") is counter
    assert made.get_accumulator("other") is None


def test_an_accumulator_name_is_registered_once_and_has_one_type(spark: SparkSession) -> None:
    made = context(spark)
    made.add_accumulator("rows", IntCounter())

    with pytest.raises(AccumulatorConflictError, match="'rows' exists already in this task and cannot be added"):
        made.add_accumulator("rows", IntCounter())
    with pytest.raises(AccumulatorConflictError, match="is of kind IntCounter, but was requested as LongCounter"):
        made.get_long_counter("rows")


def test_the_error_for_an_unregistered_accumulator_explains_registration() -> None:
    with pytest.raises(AccumulatorConflictError, match="this LongCounter is not registered"):
        LongCounter().add(1)


def test_an_invalid_accumulator_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AccumulatorConflictError, match="'n' must be registered with an accumulator, not a int"):
        AccumulatorRegistry().add("n", 1, spark.sparkContext)  # type: ignore[arg-type]
