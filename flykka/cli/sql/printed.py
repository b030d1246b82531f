"""The results of statements as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def printed(result: pd.DataFrame | str) -> str:
    """A text as it is, a table with its columns aligned to the left."""
    if isinstance(result, str):
        return result
    if result.empty:
        return "none"
    columns = [str(name) for name in result.columns]
    rows = [columns, *([str(value) for value in row] for row in result.itertuples(index=False))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
