"""The settings of a FileSource."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.types import StructType

from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.file.formats import Options, ReadFormat
from flykka.spark_bridge.connectors.file.object_store import ObjectStore, StorageOptions
from flykka.spark_bridge.rows.file_formats import FileFormat

Until = str | Callable[[], bool] | None
"""The condition that ends a continuous discovery: the name of a marker file, or a function that returns True."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceSettings:
    """The fields of a `FileSource`, for discovering splits and reading files."""

    file_format: ReadFormat
    path: str
    schema: StructType | str | None = None
    event_time: str | None = None
    reader_options: Options = ()
    files_limit: int | None = None
    rows_limit: int | None = None
    interval_ms: int | None = None
    until: Until = None
    watches: bool = True
    path_as_written: str | None = None
    storage: StorageOptions | None = None
    keeps_order: bool = False

    @property
    def store(self) -> ObjectStore:
        """The files of the path, for access with fsspec."""
        assert self.storage is not None, "the source has no storage_options"
        return ObjectStore(self.path, self.storage)

    @property
    def format(self) -> FileFormat:
        """The name of the format."""
        return self.file_format.name

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"
