"""Keyed state in checkpoint storage: one parquet folder for all that a snapshot adds.

`<checkpoint directory>/<job>/shared/<state id>/`. It is written once; later checkpoints refer to it as long as a
segment in it is live. Rows that were emitted by then are not written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.messages.state.handles import SharedStateHandle
from flykka.spark_bridge.rows.files import read_parquet, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.messages.state.handles import ExclusiveStateHandle, KeyGroupRange
    from flykka.spark_bridge.rows.filesystem import FileSystem

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


class StateReader:
    """Reads the state of one operator, whose columns are the same in all of its pieces.

    Spark finds out the columns by a job of its own, which takes longer than small state: it is done once.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._schema: StructType | None = None

    def read(self, handles: Iterable[SharedStateHandle | ExclusiveStateHandle]) -> DataFrame:
        """The rows behind some handles, of all of their key groups; they are loaded at once."""
        rows = read_parquet(self._session, [handle.path for handle in handles], self._schema)
        self._schema = rows.schema
        return rows
