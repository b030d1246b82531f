"""The kind of a row in a changelog: a string column, with the texts of Flink's RowKind."""

from __future__ import annotations

ROW_KIND = "row_kind"
"""The default name of the column."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
