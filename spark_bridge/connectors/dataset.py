"""Cluster datasets: rows that a batch job stores as parquet for later jobs of its environment (Flink's cache()).

The job that computes a dataset writes it with a FileSink, so it is complete or absent, whatever fails. Each job uses
its own folder, `<datasets>/<dataset>/<job>/`, so rows of earlier jobs are not mixed in. An empty file `_SUCCESS` marks
a complete dataset. Later jobs read the folder like any folder of parquet files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pyspark.sql.types import StructField, StructType

from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.file.formats import PARQUET
from flykka.spark_bridge.connectors.file.sink import SUCCESS, FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.connectors.file.split_discovery import FileSplitDiscovery
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.rows.files import PARQUET as PARQUET_LAYOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.wire.ids import JobId, OperatorId
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.rows.filesystem import FileSystem


def as_stored(prototype: DataFrame) -> DataFrame:
    """Return a prototype of the rows as they will be read: in files, all columns are nullable."""
    schema = StructType([StructField(each.name, each.dataType, metadata=each.metadata) for each in prototype.schema])
    return prototype.sparkSession.createDataFrame([], schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCode(TransformCode):
    """A cached stream in a program. Jobs replace it by operators that compute its rows, or a source of stored rows."""

    dataset_id: str
    schema: StructType
    event_time: EventTime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSink(FileSink):
    dataset_id: str
    root: str

    @classmethod
    def of(cls, dataset_id: str, root: str) -> Self:
        path = f"{root}/{dataset_id}"
        return cls(path=path, root=path, dataset_id=dataset_id, layout=PARQUET_LAYOUT, marks_success=True)

    @property
    def is_internal(self) -> bool:
        return True

    def for_job(self, job_id: JobId) -> Self:
        return replace(self, path=f"{self.root}/{file_name_part(job_id)}")

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        return FileSink.staging_folder(self.for_job(job_id), job_id, checkpoint_directory)

    def __str__(self) -> str:
        return f"dataset {self.dataset_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource(FileSource):
    dataset_id: str
    is_empty: bool

    @classmethod
    def of(cls, code: CacheCode, folder: str, *, is_empty: bool) -> Self:
        return cls(
            dataset_id=code.dataset_id,
            is_empty=is_empty,
            file_format=PARQUET,
            path=folder,
            schema=code.schema,
            event_time=None if code.event_time is None else code.event_time.column,
        )

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> FileSplitDiscovery:
        """Return the discovery of the files. A dataset without rows has no files, which is not an error."""
        return (_NothingToFind if self.is_empty else FileSplitDiscovery)(self, operator_id, filesystem)

    def __str__(self) -> str:
        return f"dataset {self.dataset_id}"


class _NothingToFind(FileSplitDiscovery):
    def discover(self, position: bytes) -> SplitsDiscovered:
        return SplitsDiscovered(
            operator_id=self._operator_id, splits=(), finished=True, begun_at=position, position=position
        )


def complete_files(filesystem: FileSystem, folder: str) -> Sequence[str] | None:
    """Return the files of a dataset that a job has stored in a folder; None if the dataset is incomplete. May block."""
    if not filesystem.exists(f"{folder}/{SUCCESS}"):
        return None
    return tuple(sorted(filesystem.paths_below(folder)))


def delete_dataset(filesystem: FileSystem, folder: str) -> None:
    filesystem.delete(folder)
    dataset = folder.rsplit("/", 1)[0]
    filesystem.delete_if_empty(dataset)
    filesystem.delete_if_empty(dataset.rsplit("/", 1)[0])
