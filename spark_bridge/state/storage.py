"""Keyed state in checkpoint storage: one parquet folder for all that a snapshot adds.

`<checkpoint directory>/<job>/shared/<state id>/`. It is written once; later checkpoints refer to it as long as a
segment in it is live. Rows that were emitted by then are not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flykka.messages.state import SharedStateHandle
from flykka.spark_bridge.files import read_parquet, write_files
from flykka.spark_bridge.stages.materialise import together
from flykka.spark_bridge.stages.partitioning import KeyGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.state import KeyGroupRange
    from flykka.spark_bridge.filesystem import FileSystem

_ROWS_PER_FILE = 1_000_000


def shared_folder(checkpoint_directory: str, job_id: str, state_id: str) -> str:
    """Where a state of this id lies."""
    return f"{checkpoint_directory}/{job_id}/shared/{state_id}"


def write_state(
    filesystem: FileSystem, rows: DataFrame, estimated_rows: int, path: str, state_id: str
) -> SharedStateHandle:
    """Write state and name it. One Spark job."""
    folder = filesystem.qualified(path)
    files = estimated_rows // _ROWS_PER_FILE + 1
    size = sum(status.size_bytes for status in write_files(filesystem, rows.coalesce(files), folder))
    return SharedStateHandle(state_id=state_id, path=folder, rows=estimated_rows, size_bytes=size)


def read_state(
    session: SparkSession, handles: Sequence[SharedStateHandle], groups: KeyGroups, owned: KeyGroupRange | None
) -> DataFrame | None:
    """The rows behind handles, those of the key groups `owned` where that is not all; None where there are none."""
    if not handles:
        return None
    rows = together([read_parquet(session, [handle.path]) for handle in handles])
    return rows if owned is None else groups.within(rows, owned)
