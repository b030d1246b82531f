"""Tests that failures are reported as text with the user's line, whatever was raised."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError, UnreadableStateError
from flykka.actors.machines.restart.failure_handler import ThrowableType, classify
from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.errors import OperatorFailedError, SinkError, StagedFileError, UserLine
from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.functions.process_function import ProcessFunction
from flykka.spark_bridge.rows.files import write_files
from flykka.spark_bridge.rows.filesystem import FileSystem


class SpeechlessError(Exception):
    """An error of Spark's whose text cannot be fetched because the JVM is gone."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


def test_a_failure_reports_its_exception_class_origin_and_message() -> None:
    failure = serialized("stage 3", ValueError("no"))

    assert (failure.type_name, failure.message) == ("ValueError", "stage 3: no")


def test_a_failure_without_a_message_is_still_reported() -> None:
    failure = serialized("stage 3", SpeechlessError())

    assert failure.type_name == "SpeechlessError"
    assert failure.message.startswith("stage 3: ")
    assert "SpeechlessError" in failure.stack_trace


class HopelessError(ValueError):
    """A user's error that declares itself as unrecoverable."""

    suppress_restarts = True


def operator_failure(cause: Exception) -> Exception:
    failed = OperatorFailedError("operator 'prices' (app.py:7)")
    failed.__cause__ = cause
    return failed


def of_worker(error: type[Exception]) -> PythonException:
    """Return the error as Spark raises it: the worker sends only the text of the exception."""
    text = f"Traceback (most recent call last):\n  ...\n{error.__module__}.{error.__qualname__}: chk-4/1 was altered"
    return PythonException(message=text)


@pytest.mark.parametrize(
    "raised",
    [
        StagedFileError("part-0 is gone"),
        CheckpointFormatError("chk-4/1 was altered"),
        CheckpointStateMissingError("chk-4/1 is gone"),
        UnreadableStateError("operator 'prices'"),
        operator_failure(HopelessError("no")),
        of_worker(CheckpointFormatError),
        of_worker(HopelessError),
    ],
    ids=repr,
)
def test_an_unrecoverable_failure_suppresses_restarts(raised: Exception) -> None:
    assert serialized("stage 3", raised).suppress_restarts
    assert classify(serialized("stage 3", raised)) is ThrowableType.NON_RECOVERABLE


@pytest.mark.parametrize("raised", [SinkError("no"), operator_failure(ValueError("no")), of_worker(KeyError)], ids=repr)
def test_a_recoverable_failure_does_not_suppress_restarts(raised: Exception) -> None:
    assert not serialized("stage 3", raised).suppress_restarts


def users_function() -> None:
    raise KeyError("price")


def test_the_users_own_line_is_reported_as_in_python() -> None:
    try:
        users_function()
    except KeyError as raised:
        failure = serialized("stage 3", raised)

    assert failure.message.splitlines() == [
        "stage 3: 'price'",
        f'  File "{__file__}", line {users_function.__code__.co_firstlineno + 1}, in users_function',
        '    raise KeyError("price")',
    ]


def test_a_failure_names_its_operator_instead_of_the_stage() -> None:
    failed = OperatorFailedError("operator 'prices' (app.py:7)")
    failed.__cause__ = ValueError("no")

    failure = serialized("stage 3", failed)

    assert (failure.type_name, failure.message) == ("ValueError", "operator 'prices' (app.py:7): no")


def test_an_error_without_a_users_line_names_the_running_operators() -> None:
    written = UserLine(file="app.py", line=7, function="prices", source="rows.transform(prices)")
    failed = OperatorFailedError("operator 'prices' (app.py:7)", written)
    failed.__cause__ = value_error()

    for failure in (
        serialized("stage 3", failed),
        serialized("operator 'prices' (app.py:7)", value_error(), [written]),
    ):
        assert failure.message.splitlines() == [
            "operator 'prices' (app.py:7): no",
            '  File "app.py", line 7, in prices',
            "    rows.transform(prices)",
        ]


class Inverses(ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: FunctionContext) -> list[dict[str, Any]]:
        return [{"id": 1 // row["id"]}]


def process_in_worker(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    runner = ProcessFunctionRunner(Inverses())
    runner.open()
    for batch in batches:
        rows = [{"id": int(each)} for each in batch["id"]]
        emitted = runner.process(rows, None, watermark_ms=0, processing_time_ms=0)
        yield pd.DataFrame(emitted.rows)


INVERSES = [
    "stage 3: integer division or modulo by zero; in process_element, at row {'id': 0}",
    f'  File "{__file__}", line {Inverses.process_element.__code__.co_firstlineno + 1}, in process_element',
    '    return [{"id": 1 // row["id"]}]',
]


def test_a_row_function_fails_with_the_row_in_the_error() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(process_in_worker(iter([pd.DataFrame({"id": [1, 0]})])))

    failure = serialized("stage 3", caught.value)

    assert failure.message.splitlines() == INVERSES


def value_error() -> ValueError:
    return ValueError("no")


def test_a_function_that_exits_fails_with_the_alternative_in_the_error() -> None:
    failure = serialized("stage 3", SystemExit(3))

    assert failure.type_name == "SystemExit"
    assert failure.message.startswith("stage 3: sys.exit(3) was called, which does not end the job: raise an exception")


def raise_in_worker(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch[["missing"]]


def end_the_worker(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from batches
    sys.stderr.flush()
    os._exit(3)


@pytest.mark.spark
def test_an_error_of_a_full_disk_names_the_folder(spark: SparkSession) -> None:
    full = CapturedException(desc="java.io.IOException: No space left on device", stackTrace="")
    full.add_note("written was to file:/checkpoints/7")

    failure = serialized("snapshot 3", full)

    assert (failure.type_name, failure.message) == (
        "DiskFullError",
        "snapshot 3: No space left on device: free space there, or where executors store rows (spark.local.dir);"
        " written was to file:/checkpoints/7",
    )


@pytest.mark.spark
@pytest.mark.slow
def test_missing_rows_are_reported_as_lost_and_recoverable(spark: SparkSession) -> None:
    rows = spark.range(10).localCheckpoint()
    rows._jdf.queryExecution().analyzed().rdd().unpersist(True)

    failure = _failure_of(rows)

    assert (failure.type_name, failure.suppress_restarts) == ("LostBatchError", False)
    assert failure.message == "stage 3: rows that were computed earlier are lost with the executor that stored them"


@pytest.mark.spark
@pytest.mark.slow
def test_an_out_of_memory_error_names_the_memory_setting(spark: SparkSession) -> None:
    # The plan is evaluated during optimisation, in an array larger than any in a JVM.
    failure = _failure_of(spark.range(1).select(F.repeat(F.lit("x"), F.lit(2**31 - 1))))

    assert failure.type_name == "OutOfMemoryError"
    assert "give executors more (spark.executor.memory" in failure.message


@pytest.mark.spark
def test_an_error_in_a_worker_shows_the_users_own_line(
    spark: SparkSession,
) -> None:
    failure = _failure_of(spark.range(1).mapInPandas(raise_in_worker, "id long"))

    assert failure.type_name == "KeyError"
    assert "None of [Index(['missing']" in failure.message
    assert failure.message.endswith('in raise_in_worker\n    yield batch[["missing"]]')


@pytest.mark.spark
def test_a_row_functions_worker_error_contains_the_row(spark: SparkSession) -> None:
    failure = _failure_of(spark.range(1).mapInPandas(process_in_worker, "id long"))

    assert (failure.type_name, failure.message.splitlines()) == ("ZeroDivisionError", INVERSES)


@pytest.mark.spark
def test_an_exiting_worker_is_reported_without_sparks_tasks_and_stages(spark: SparkSession) -> None:
    failure = _failure_of(spark.range(1).mapInPandas(end_the_worker, "id long"))

    assert failure.type_name == "WorkerExitedError"
    assert failure.message.startswith("stage 3: Python worker exited unexpectedly (crashed): a function has ended its")


@pytest.mark.spark
def test_a_mismatched_value_is_reported_with_the_columns_line(spark: SparkSession) -> None:
    rows = spark.range(1).select(F.concat(F.lit("a"), F.col("id").cast("string")).cast("int"))

    failure = _failure_of(rows)

    assert failure.type_name == "NumberFormatException"
    assert 'The value \'a0\' of the type "STRING" cannot be cast to "INT"' in failure.message
    assert failure.message.endswith(
        'rows = spark.range(1).select(F.concat(F.lit("a"), F.col("id").cast("string")).cast("int"))'
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "suppresses"),
    [
        ("SELECT hash()", True),
        ("SELECT nothing FROM range(1)", True),
        ("SELECT 1 +", True),
        ("SELECT * FROM nothing", False),
        ("SELECT * FROM parquet.`/nothing/here`", False),
    ],
)
def test_an_invalid_query_suppresses_restarts_but_a_missing_table_does_not(
    spark: SparkSession, query: str, suppresses: bool
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(query).collect()

    assert serialized("stage 3", caught.value).suppress_restarts is suppresses


@pytest.mark.spark
@pytest.mark.slow
def test_a_storage_error_names_its_path(spark: SparkSession, tmp_path: Path) -> None:
    filesystem, target = FileSystem(spark), tmp_path / "state"
    # A file in place of the folder makes writing fail for every user. An administrator may write into any folder.
    target.write_bytes(b"")

    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whichever class Spark finds fit
        write_files(filesystem, spark.range(1), f"{target}/below")
    failure = serialized("snapshot 3", caught.value)

    assert str(target) in failure.message


def _failure_of(rows: DataFrame) -> SerializedThrowable:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whichever class Spark finds fit
        rows.collect()
    return serialized("stage 3", caught.value)
