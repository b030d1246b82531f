"""Makes values of texts in Python workers, and does with those that Spark has no value for what the source says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyarrow import compute

from flykka.spark_bridge.connectors.postgres.read_types import ReadColumn
from flykka.spark_bridge.errors import UnreadableValueError

OnUnreadable = Literal["fail", "null", "side-output"]

UNREADABLE = "__unreadable"
"""The column of a row that is put aside: its texts, and the columns that have no value. Null in all others."""

_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadValues:
    """The values of the texts of a table's `columns`, which are the first of a batch.

    `keys` name the row in errors; of rows without a key all columns do. Errors name "side-output" if the reader
    `puts_aside` rows. With it the batch has the column `UNREADABLE` too: a struct of the columns after the table's, of
    the names of unreadable columns, and of the texts of the row.
    """

    table: str
    columns: Sequence[ReadColumn]
    keys: Sequence[str] = ()
    puts_aside: bool = True
    on_unreadable: OnUnreadable = "fail"

    def of(self, texts: pa.RecordBatch) -> pa.RecordBatch:
        """The values. Raises `UnreadableValueError` where the rule says so."""
        parsed = [column.parsed(texts.column(place)) for place, column in enumerate(self.columns)]
        unreadable: dict[int, list[str]] = {}
        for column, (_, unfit) in zip(self.columns, parsed, strict=True):
            for row in [] if unfit is None else compute.indices_nonzero(unfit).to_pylist():
                self._check(texts, row, column)
                unreadable.setdefault(row, []).append(column.name)
        beside = texts.columns[len(self.columns) :]
        arrays, names = [*(values for values, _ in parsed), *beside], list(texts.schema.names)
        if self.on_unreadable == "side-output":
            arrays.append(self._aside(texts, unreadable))
            names.append(UNREADABLE)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _check(self, texts: pa.RecordBatch, row: int, column: ReadColumn) -> None:
        is_key = column.name in self.keys
        if self.on_unreadable == "side-output" or (self.on_unreadable == "null" and not is_key):
            return
        texts_of_row = {each.name: texts.column(place)[row].as_py() for place, each in enumerate(self.columns)}
        key = ", ".join(f"{name} = {texts_of_row[name]}" for name in self.keys or texts_of_row)
        advice = ['with on_unreadable="null" it is read as null'] if not is_key else ["a key cannot be read as null"]
        if self.puts_aside:
            advice.append('with on_unreadable="side-output" its row goes to a side output')
        value = texts_of_row[column.name][:_SHOWN]
        raise UnreadableValueError(
            f"the column {column.name!r} of {self.table} has the value {value!r} in the row {key[:_SHOWN]},"
            f" and {column.type} of Spark has no such value: {', '.join(advice)}"
        )

    def _aside(self, texts: pa.RecordBatch, unreadable: Mapping[int, Sequence[str]]) -> pa.Array:
        beside = range(len(self.columns), texts.num_columns)
        kind = pa.struct(
            [
                *(texts.schema.field(place) for place in beside),
                pa.field("unreadable", pa.list_(pa.string())),
                pa.field("texts", pa.map_(pa.string(), pa.string())),
            ]
        )
        rows: list[dict[str, object] | None] = [None] * texts.num_rows
        for row, names in unreadable.items():
            rows[row] = {
                **{texts.schema.names[place]: texts.column(place)[row].as_py() for place in beside},
                "unreadable": names,
                "texts": [(each.name, texts.column(place)[row].as_py()) for place, each in enumerate(self.columns)],
            }
        return pa.array(rows, kind)
