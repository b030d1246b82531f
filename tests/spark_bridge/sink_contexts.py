"""What a writer of a sink works with, with defaults."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.messages.ids import ExecutionAttemptId
from flykka.spark_bridge.filesystem import FileSystem
from flykka.spark_bridge.scope import AttemptScope
from flykka.spark_bridge.sinks.sink import SinkContext


def sink_context(
    spark: SparkSession,
    staging_folder: str | None = None,
    *,
    filesystem: FileSystem | None = None,
    uid: str = "my sink",
    attempt_number: int = 0,
    subtask: int = 3,
    parallelism: int = 4,
) -> SinkContext:
    """A context of one subtask of a sink."""
    return SinkContext(
        filesystem=filesystem or FileSystem(spark),
        scope=AttemptScope(spark, ExecutionAttemptId(f"{uid}-{subtask}-{attempt_number}"), pool="tests"),
        user_session=spark,
        uid=uid,
        name=uid,
        operator=repr(uid),
        subtask=subtask,
        parallelism=parallelism,
        attempt_number=attempt_number,
        staging_folder=staging_folder,
    )
