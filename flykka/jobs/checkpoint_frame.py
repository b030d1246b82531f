"""The checkpoints of a job as a table to work with: a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.jobs.job_details import CheckpointStatistics, CheckpointStatsStatus

if TYPE_CHECKING:
    import pandas as pd

_TYPES = {
    "checkpoint_id": "int64",
    "status": "object",
    "triggered": "datetime64[ms, UTC]",
    "ended": "datetime64[ms, UTC]",
    "duration_ms": "Int64",
    "size_bytes": "Int64",
    "incremental_bytes": "Int64",
    "path": "object",
    "reason": "object",
}


def checkpoint_frame(checkpoints: Iterable[CheckpointStatistics]) -> pd.DataFrame:
    """A row per checkpoint. One that was given up has a reason, and neither a duration nor sizes nor a path."""
    import pandas as pd

    rows = [_row(checkpoint) for checkpoint in checkpoints]
    # Column by column, each with its type: an empty table has the types of a full one.
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in _TYPES.items()})


def _row(checkpoint: CheckpointStatistics) -> dict[str, object]:
    completed = checkpoint.status is CheckpointStatsStatus.COMPLETED
    return {
        "checkpoint_id": checkpoint.checkpoint_id,
        "status": str(checkpoint.status),
        "triggered": checkpoint.ended_ms - checkpoint.duration_ms if completed else None,
        "ended": checkpoint.ended_ms,
        "duration_ms": checkpoint.duration_ms if completed else None,
        "size_bytes": checkpoint.size_bytes if completed else None,
        "incremental_bytes": checkpoint.incremental_bytes if completed else None,
        "path": checkpoint.path,
        "reason": None if checkpoint.reason is None else str(checkpoint.reason),
    }
