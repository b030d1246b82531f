"""The kind of a row in a changelog: a column of texts, as Flink writes RowKind."""

from __future__ import annotations

ROW_KIND = "row_kind"
"""The name of the column, unless the user says another."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
