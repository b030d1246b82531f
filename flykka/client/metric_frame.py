"""The metrics of a job as a table to work with: a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.metrics.measured import Measured, numbers

if TYPE_CHECKING:
    import pandas as pd

_LABELS = {
    "vertex": ("task_name", "object"),
    "operator": ("operator_name", "object"),
    "subtask": ("subtask_index", "Int64"),
    "task_manager": ("tm_id", "object"),
    "attempt": ("task_attempt_num", "Int64"),
}
"""Columns, each with the label that it has the values of, and its type."""


def metric_frame(measured: Iterable[Measured], at_ms: int) -> pd.DataFrame:
    """A row per value. What is measured of a job as a whole has no subtask, and what of a task no operator."""
    import pandas as pd

    rows = [(each, name, value) for each in measured for name, value in numbers(each.values).items()]
    # Column by column, each with its type: an empty table has the types of a full one.
    return pd.DataFrame(
        {
            "at": pd.Series([at_ms] * len(rows), dtype="datetime64[ms, UTC]"),
            "scope": pd.Series([each.scope for each, _, _ in rows], dtype="object"),
            "name": pd.Series([name for _, name, _ in rows], dtype="object"),
            **{
                column: pd.Series([_label(each, label, kind) for each, _, _ in rows], dtype=kind)
                for column, (label, kind) in _LABELS.items()
            },
            "value": pd.Series([value for _, _, value in rows], dtype="float64"),
        }
    )


def _label(measured: Measured, label: str, kind: str) -> str | int | None:
    told = measured.labels.get(label)
    return told if told is None or kind == "object" else int(told)
