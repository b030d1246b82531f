"""Tests Spark's own failures by error class, each with the hint that is added to it."""

from __future__ import annotations

import pytest

from flykka.spark_bridge.diagnosis.spark_reasons import FATAL, SparkReason, spark_reason

LOST_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most recent"
    " failure: Lost task 0.3 in stage 7.0 (TID 31) (10.0.0.7 executor 5): {}\n\nDriver stacktrace:\n\tat java.base/..."
)
MEMORY = (
    "give executors more (spark.executor.memory, spark.executor.memoryOverhead; at a local master spark.driver.memory),"
    " or make batches smaller"
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            LOST_TASK.format(
                "ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: Command exited with"
                " code 52"
            ),
            SparkReason(
                name="ExecutorOutOfMemoryError", text=f"executor 5 has run out of memory and is gone: {MEMORY}"
            ),
        ),
        (
            LOST_TASK.format(
                "ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: Container killed by"
                " YARN for exceeding memory limits. 1.6 GB of 1.5 GB physical memory used. Consider boosting"
                " spark.executor.memoryOverhead."
            ),
            SparkReason(
                name="ExecutorOutOfMemoryError", text=f"executor 5 has run out of memory and is gone: {MEMORY}"
            ),
        ),
        (
            LOST_TASK.format(
                "ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: Executor heartbeat"
                " timed out after 129867 ms"
            ),
            SparkReason(
                name="ExecutorLostError", text="executor 5 was lost: Executor heartbeat timed out after 129867 ms"
            ),
        ),
        (
            LOST_TASK.format("java.lang.OutOfMemoryError: Java heap space"),
            SparkReason(name="OutOfMemoryError", text=f"Spark has run out of memory (Java heap space): {MEMORY}"),
        ),
        (
            LOST_TASK.format(
                "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 64"
                " bytes of memory, got 0."
            ),
            SparkReason(
                name="OutOfMemoryError",
                text="Spark has run out of memory ([UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 64 bytes of memory,"
                f" got 0.): {MEMORY}",
            ),
        ),
        (
            "org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_129_0 not found!"
            "\nEither the executor that originally checkpointed this partition is no longer alive, or the original RDD"
            " is unpersisted.",
            SparkReason(
                name="LostBatchError",
                text="rows that were computed earlier are lost with the executor that stored them",
                lost_rdd=129,
            ),
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: ResultStage 4 (count at ...) has failed"
            " the maximum allowable number of times: 4. Most recent failure reason:\n"
            "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 0 partition"
            " 0\n\tat ...",
            SparkReason(
                name="FetchFailedError",
                text="rows of a shuffle cannot be fetched from the executor that wrote them: Missing an output"
                " location for shuffle 0 partition 0",
            ),
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: ResultStage 4 (count at ...) has failed"
            " the maximum allowable number of times: 4. Most recent failure reason:\n"
            "org.apache.spark.shuffle.FetchFailedException: Failed to connect to /10.0.0.7:40001\n\tat ...",
            SparkReason(
                name="FetchFailedError",
                text="rows of a shuffle cannot be fetched from the executor that wrote them: Failed to connect to"
                " /10.0.0.7:40001",
            ),
        ),
        (
            LOST_TASK.format(
                "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'spark"
            ),
            SparkReason(
                name="WorkerExitedError",
                text="Python worker exited unexpectedly (crashed): a function has ended its process (os._exit), crashed"
                " in native code, or was killed for lack of memory",
            ),
        ),
        (
            LOST_TASK.format("java.io.IOException: No space left on device"),
            SparkReason(
                name="DiskFullError",
                text="No space left on device: free space there, or where executors store rows (spark.local.dir)",
            ),
        ),
        (
            LOST_TASK.format("java.io.IOException: Mkdirs failed to create file:/data/x (exists=false, cwd=file:/)"),
            SparkReason(
                name="StorageError",
                text="Mkdirs failed to create file:/data/x: the storage refuses access, or is unavailable",
            ),
        ),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext"
            " was created at:",
            SparkReason(
                name="SessionStoppedError",
                text="rows of a stopped Spark session were requested; its DataFrames cannot be read any more: start the"
                " program again",
            ),
        ),
    ],
)
def test_a_spark_failure_is_reported_by_its_error_class(said: str, reason: SparkReason) -> None:
    assert spark_reason(said) == reason


@pytest.mark.parametrize(
    "said",
    [
        LOST_TASK.format("java.lang.NumberFormatException: abc"),
        "org.apache.spark.SparkException: Job 3 cancelled as part of cancellation of all jobs with tag flykka-a",
        "ValueError: no",
    ],
)
def test_an_error_not_raised_by_spark_has_no_reason(said: str) -> None:
    assert spark_reason(said) is None


def test_a_loss_in_spark_is_recoverable_unless_the_session_is_gone() -> None:
    assert sorted(FATAL) == ["SessionStoppedError"]
