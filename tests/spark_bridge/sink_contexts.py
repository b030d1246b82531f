"""Contexts of sink writers with defaults, and a file system that crashes at a chosen rename."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.spark_bridge.program.sink import SinkContext
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.attempt_scope import AttemptScope


class CrashError(Exception):
    pass


class CrashingFileSystem(FileSystem):
    """Raises `CrashError` right before the rename with this index, counted from 0."""

    def __init__(self, session: SparkSession, survives: int) -> None:
        super().__init__(session)
        self._left = survives

    def rename(self, source: str, target: str) -> bool:
        if self._left == 0:
            raise CrashError
        self._left -= 1
        return super().rename(source, target)


def sink_context(
    spark: SparkSession,
    staging_folder: str | None = None,
    *,
    filesystem: FileSystem | None = None,
    uid: str = "my sink",
    attempt_number: int = 0,
    subtask: int = 3,
    parallelism: int = 4,
    fsync: bool = True,
    owner_number: int = 0,
) -> SinkContext:
    return SinkContext(
        filesystem=filesystem or FileSystem(spark),
        scope=AttemptScope(
            spark, ExecutionAttemptId(f"{uid}-{subtask}-{attempt_number}"), pool="tests", label="(1/1)#0"
        ),
        user_session=spark,
        uid=uid,
        name=uid,
        operator=repr(uid),
        subtask=subtask,
        parallelism=parallelism,
        attempt_number=attempt_number,
        staging_folder=staging_folder,
        job_id=JobId("job"),
        job_name="my job",
        fsync=fsync,
        owner_number=owner_number,
    )
