"""Runs a sink in one subtask and reads its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from flykka.connectors import FileSystem
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Value
from flykka.spark_bridge.connectors.transactional import TransactionalSink
from tests.spark_bridge.sink_contexts import sink_context


class Attempt:
    def __init__(
        self,
        spark: SparkSession,
        sink: TransactionalSink,
        number: int = 0,
        *,
        uid: str = "my sink",
        filesystem: FileSystem | None = None,
    ) -> None:
        bound = sink.bound(spark)
        folder = bound.staging_folder(JobId("job"), "")
        context = sink_context(
            spark, folder, filesystem=filesystem, uid=uid, attempt_number=number, subtask=0, parallelism=1
        )
        self.writer = bound.writer(context)

    def prepare(self, checkpoint_id: int, *batches: DataFrame) -> Sequence[Value]:
        names = [name for batch in batches for name in self.writer.stage(batch).names]
        return self.writer.prepare_commit(checkpoint_id, tuple(names))

    def publish(self, checkpoint_id: int, *batches: DataFrame) -> Sequence[Value]:
        prepared = self.prepare(checkpoint_id, *batches)
        self.writer.commit(checkpoint_id)
        return prepared


def rows_of_table(table: Path, version: int | None = None) -> list[tuple[Any, ...]]:
    """Return the rows that a reader sees; an empty list if there is no table."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    rows = DeltaTable(str(table), version=version).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def frame(spark: SparkSession, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)
