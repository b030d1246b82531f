"""Keyed state in checkpoint storage: one parquet folder for all that a snapshot adds.

`<checkpoint directory>/<job>/shared/<state id>/`. It is written once; later checkpoints refer to it as long as a
segment in it is live. Rows that were emitted by then are not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.state import SharedStateHandle
from flykka.spark_bridge.files import read_parquet, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.state import ExclusiveStateHandle, KeyGroupRange
    from flykka.spark_bridge.filesystem import FileSystem

_ROWS_PER_FILE = 1_000_000


def shared_folder(checkpoint_directory: str, job_id: str, state_id: str) -> str:
    """Where a state of this id lies."""
    return f"{checkpoint_directory}/{job_id}/shared/{state_id}"


def write_state(
    filesystem: FileSystem,
    rows: DataFrame,
    estimated_rows: int,
    path: str,
    state_id: str,
    key_groups: KeyGroupRange,
) -> SharedStateHandle:
    """Write state of these key groups and name it. One Spark job."""
    folder = filesystem.qualified(path)
    files = estimated_rows // _ROWS_PER_FILE + 1
    size = sum(status.size_bytes for status in write_files(filesystem, rows.coalesce(files), folder))
    return SharedStateHandle(
        state_id=state_id, path=folder, rows=estimated_rows, size_bytes=size, key_groups=key_groups
    )


def read_state(session: SparkSession, handle: SharedStateHandle | ExclusiveStateHandle) -> DataFrame:
    """The rows behind a handle, of all of its key groups."""
    return read_parquet(session, [handle.path])
