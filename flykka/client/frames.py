"""The checkpoints and metrics of a job as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsStatus,
    StatsSummary,
    VertexCheckpointStatistics,
)
from flykka.messages.wire.ids import JobVertexId
from flykka.metrics.measured import Measured, numbers

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

_MEASURED = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")
_COUNTED = ("size_bytes", "incremental_bytes", "processed_bytes", "persisted_bytes")

_VERTEX_TYPES = (
    {"checkpoint_id": "int64", "vertex": "object", "subtasks": "int64", "duration_ms": "int64"}
    | dict.fromkeys(_COUNTED, "int64")
    | {f"{measured}_{which}": "int64" for measured in _MEASURED for which in ("avg", "max")}
)
_LABELS = {
    "vertex": ("task_name", "object"),
    "operator": ("operator_name", "object"),
    "subtask": ("subtask_index", "Int64"),
    "task_manager": ("tm_id", "object"),
    "attempt": ("task_attempt_num", "Int64"),
}
_METRIC_TYPES = {
    "at": "datetime64[ms, UTC]",
    "scope": "object",
    "name": "object",
    **{column: kind for column, (_, kind) in _LABELS.items()},
    "value": "float64",
}


def vertex_checkpoint_frame(
    checkpoints: Iterable[CheckpointStatistics], names: Mapping[JobVertexId, str]
) -> pd.DataFrame:
    """Return a row per completed checkpoint and vertex: the total sizes of its subtasks, and their times."""
    rows = [
        _vertex_row(checkpoint.checkpoint_id, names[vertex.vertex_id], vertex)
        for checkpoint in checkpoints
        for vertex in checkpoint.vertices
    ]
    return _frame(rows, _VERTEX_TYPES)


def _vertex_row(checkpoint_id: int, name: str, vertex: VertexCheckpointStatistics) -> dict[str, object]:
    row: dict[str, object] = {
        "checkpoint_id": checkpoint_id,
        "vertex": name,
        "subtasks": vertex.acknowledged,
        "duration_ms": vertex.duration_ms,
    }
    row |= {column: getattr(vertex, column) for column in _COUNTED}
    for measured in _MEASURED:
        summary: StatsSummary = getattr(vertex, measured)
        row |= {f"{measured}_avg": summary.average, f"{measured}_max": summary.maximum}
    return row


def checkpoint_frame(checkpoints: Iterable[CheckpointStatistics]) -> pd.DataFrame:
    """Return a row per checkpoint. An aborted checkpoint has a reason, but no duration, sizes or path."""
    return _frame([_row(checkpoint) for checkpoint in checkpoints], _TYPES)


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


def _frame(rows: Sequence[Mapping[str, object]], types: Mapping[str, str]) -> pd.DataFrame:
    """Create a DataFrame with explicit column types, which an empty DataFrame needs."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in types.items()})


def metric_frame(measured: Iterable[Measured], at_ms: int) -> pd.DataFrame:
    """Return a row per metric value. Metrics of a job have no subtask, and metrics of a task have no operator."""
    rows: list[dict[str, object]] = []
    for each in measured:
        labels = {column: _label(each, label, kind) for column, (label, kind) in _LABELS.items()}
        of_all = {"at": at_ms, "scope": each.scope, **labels}
        rows += [{**of_all, "name": name, "value": value} for name, value in numbers(each.values).items()]
    return _frame(rows, _METRIC_TYPES)


def _label(measured: Measured, label: str, kind: str) -> str | int | None:
    value = measured.labels.get(label)
    return value if value is None or kind == "object" else int(value)
