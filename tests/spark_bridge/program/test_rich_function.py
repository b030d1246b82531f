"""Tests the lifecycle of rich functions in an attempt: opened from the last to the first, and always closed."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from threading import Event, current_thread

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flykka.messages.attempt.answers import ChainClosed, ChainOpened
from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.program.row_wise import works_row_by_row
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS, DrivenAttempt
from tests.spark_bridge.harness import Harness, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Life:
    """The calls of a test's functions in order, with their threads."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: set[str] = set()
        self.contexts: list[RuntimeContext] = []

    def note(self, event: str) -> None:
        self.events.append(event)
        self.threads.add(current_thread().name)


class Noting(RichFunction):
    """Forwards rows and records its calls; each copy counts its own batches. Raises at `fails_at`."""

    def __init__(self, life: Life, name: str, fails_at: str = "never") -> None:
        self.life = life
        self.name = name
        self.fails_at = fails_at
        self.batches = 0

    def open(self, context: RuntimeContext) -> None:
        self.life.contexts.append(context)
        self._do("open")

    def close(self) -> None:
        self._do("close")

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.batches += 1
        self._do(f"batch {self.batches}")
        return rows

    def _do(self, what: str) -> None:
        self.life.note(f"{what} {self.name}")
        if what.startswith(self.fails_at):
            raise ConnectionError(f"{self.name} is unreachable")


@pytest.fixture
def life() -> Life:
    return Life()


def begin_attempt(harness: Harness, *functions: RichFunction, number: int = 0) -> DrivenAttempt:
    """Create an attempt of a source with these functions and a sink after it, without opening it."""
    transforms = (transform(function) for function in functions)
    return harness.begin(harness.source(*transforms, harness.sink()), number=number)


def read_batches(harness: Harness, attempt: DrivenAttempt, batches: int = 1) -> None:
    for number in range(batches):
        write_rows(harness.input / f"{number}.parquet", [(1, 1, number)])
    for split in harness.splits(attempt.engine.descriptor.vertex):
        attempt.read([split])


def close_attempt(attempt: DrivenAttempt, *, cancel: bool = False) -> SerializedThrowable | None:
    attempt.start_close(cancel=cancel)
    return attempt.expect(ChainClosed).failure


@pytest.mark.parametrize("cancel", [False, True])
def test_functions_are_opened_from_last_to_first_and_closed_after_their_batches(
    harness: Harness, life: Life, cancel: bool
) -> None:
    write_rows(harness.input / "0.parquet", [])
    attempt = begin_attempt(harness, Noting(life, "first"), Noting(life, "second")).open()

    read_batches(harness, attempt, batches=2)
    assert close_attempt(attempt, cancel=cancel) is None
    attempt.engine.close()

    assert life.events == [
        *("open second", "open first"),
        *("batch 1 first", "batch 1 second", "batch 2 first", "batch 2 second"),
        *("close second", "close first"),
    ]


def test_functions_are_called_on_threads_of_the_attempt(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [])
    attempt = begin_attempt(harness, Noting(life, "it")).open()

    read_batches(harness, attempt)
    attempt.close()

    name = attempt.engine.descriptor.attempt
    assert life.threads == {f"{name} stages", f"{name} close"}


def test_each_attempt_has_its_own_copy_with_its_subtask(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [])
    function = Noting(life, "it")

    for number in range(2):
        attempt = begin_attempt(harness, function, number=number).open()
        read_batches(harness, attempt)
        attempt.close()

    assert life.events == ["open it", "batch 1 it", "close it"] * 2
    assert function.batches == 0
    context = life.contexts[1]
    assert replace(context, session=None) == RuntimeContext(  # type: ignore[arg-type]
        uid="source-stateless-1",
        task_name="source",
        session=None,  # type: ignore[arg-type]
        job_id=harness.job_id,
        max_number_of_parallel_subtasks=128,
        attempt_number=1,
    )
    assert context.session.sparkContext is harness.plane.session.sparkContext


def test_a_failing_open_fails_the_attempt_and_opened_functions_are_closed(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [])
    functions = (Noting(life, "first"), Noting(life, "second", fails_at="open"), Noting(life, "third"))
    attempt = begin_attempt(harness, *functions)

    attempt.start_open()
    failed = attempt.expect_failure()
    assert close_attempt(attempt, cancel=True) is None

    assert failed.cause.type_name == "ConnectionError"
    assert failed.cause.message.startswith("opening operator 'source-stateless-2': second is unreachable")
    assert life.events == ["open third", "open second", "close third", "close second"]


def test_a_failing_close_fails_the_attempt_and_others_are_closed(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [])
    attempt = begin_attempt(harness, Noting(life, "first"), Noting(life, "second", fails_at="close")).open()

    failed = close_attempt(attempt)

    assert failed is not None
    assert failed.type_name == "ConnectionError"
    assert failed.message.startswith("closing operator 'source-stateless-2': second is unreachable")
    assert life.events[-2:] == ["close second", "close first"]


def test_a_failing_close_does_not_hide_an_earlier_failure(
    harness: Harness, life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    attempt = begin_attempt(
        harness, Noting(life, "it", fails_at="batch"), Noting(life, "other", fails_at="close")
    ).open()
    attempt.start_read(harness.splits(attempt.engine.descriptor.vertex))
    failed = attempt.expect_failure()

    with caplog.at_level(logging.WARNING):
        assert close_attempt(attempt, cancel=True) is None

    assert failed.cause.message.startswith("operator 'source-stateless-1': it is unreachable")
    assert "closing operator 'source-stateless-2' failed" in caplog.text


def test_an_attempt_that_was_never_opened_closes_no_function(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [])

    begin_attempt(harness, Noting(life, "it")).close(cancel=True)

    assert life.events == []


def test_a_function_receives_one_batch_at_a_time(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    attempt = begin_attempt(harness, Noting(life, "it"))

    attempt.start_open()

    assert attempt.expect(ChainOpened).is_ordered


def test_plain_functions_run_unordered_but_results_keep_batch_order(harness: Harness, life: Life) -> None:
    is_second_called = Event()

    def first(rows: DataFrame) -> DataFrame:
        (key,) = {row.key for row in rows.collect()}
        assert key or is_second_called.wait(PATIENCE_SECONDS)
        life.note(f"first {key}")
        return rows

    def second(rows: DataFrame) -> DataFrame:
        (key,) = {row.key for row in rows.collect()}
        life.note(f"second {key}")
        is_second_called.set()
        return rows

    for key in range(2):
        write_rows(harness.input / f"{key}.parquet", [(key, 1, 0.0)] * (key + 1))
    attempt = harness.begin(harness.source(transform(first), transform(second))).open()

    for split in harness.splits(attempt.engine.descriptor.vertex):
        attempt.start_read([split])
    finished = sorted((attempt.expect_result() for _ in range(2)), key=lambda result: result.stage)

    assert life.events == ["first 1", "second 1", "first 0", "second 0"]
    assert [output.batch.rows for stage in finished for output in stage.outputs] == [1, 2]


def test_a_blocking_close_is_abandoned(
    spark: SparkSession, registry: CodeRegistry, tmp_path: Path, life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    may_go_on = Event()

    class Blocking(Noting):
        def close(self) -> None:
            assert may_go_on.wait(PATIENCE_SECONDS)
            super().close()

    harness = Harness(SparkDataPlane(spark, registry, cancellation_timeout_seconds=0.1), registry, tmp_path)
    write_rows(harness.input / "0.parquet", [])
    attempt = begin_attempt(harness, Blocking(life, "it")).open()

    with caplog.at_level(logging.WARNING):
        attempt.close(cancel=True)
    ended_while_it_blocked = attempt.engine.end.wait(0)
    may_go_on.set()

    assert "closing its rich functions" in caplog.text
    assert not ended_while_it_blocked
    assert attempt.engine.end.wait(PATIENCE_SECONDS)
    assert life.events == ["open it", "close it"]


def test_a_result_without_the_declared_columns_fails_the_attempt(harness: Harness, life: Life) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    function = Noting(life, "it")
    function.schema = "key long"
    attempt = begin_attempt(harness, function).open()

    attempt.start_read(harness.splits(attempt.engine.descriptor.vertex))
    failed = attempt.expect_failure()

    assert failed.cause.type_name == "DeclaredSchemaError"
    assert "declares struct<key:bigint>, but returned struct<key:bigint,amount:bigint,at:timestamp>" in (
        failed.cause.message
    )


def test_a_rich_function_is_not_called_for_analysis(spark: SparkSession, life: Life) -> None:
    assert not works_row_by_row(spark, StructType(), [Noting(life, "it")])
    assert life.events == []
