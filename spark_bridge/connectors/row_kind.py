"""The kind of a row in a changelog: a column of texts, as Flink writes RowKind."""

from __future__ import annotations

ROW_KIND = "row_kind"
"""The name of the column, unless the user says another: `+I`, `+U` (and `-U`) or `-D`."""
