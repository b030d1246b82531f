"""Types of columns that are read: the type of a value in Spark, and its conversion from PostgreSQL's text.

COPY and logical decoding both write values as texts, and Spark casts them in the JVM. Arrays arrive as lists of the
texts of their elements. Values of types that Spark lacks stay texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.postgres.written_types import named
from flykka.spark_bridge.errors import UnreadableValueError
from flykka.spark_bridge.program.prototype import PrototypeError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.spark_bridge.connectors.postgres.tables import TableColumn

_TYPES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "oid": "bigint",
    "float4": "float",
    "float8": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "bytea": "binary",
}
_ANY_NUMERIC = (38, 18)
_PRECISION_MAX = 38
# Spark's years are 1 to 9999.
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r" \d\d:\d\d:\d\d(\.\d+)?"
# int2, int4, int8, numeric; varchar, text.
_WIDENED = ((21, 23, 20, 1700), (1043, 25))
_READABLE = {"date": _DATE, "timestamp_ntz": _DATE + _TIME, "timestamp": rf"{_DATE}{_TIME}\+00"}
"""Patterns of readable texts, for Spark types that lack some values of PostgreSQL's type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumn:
    """A column that is read. `type` is Spark's type. Texts, or elements, that fit this type match the pattern
    `readable`.

    `delimiter` separates the elements of an array. `type_id` and `sql_type` are the column's type in the database, in
    the notation of the log and of SQL.
    """

    name: str
    type: str
    readable: str | None = None
    delimiter: str | None = None
    type_id: tuple[int, int] = (0, -1)
    sql_type: str = ""

    @classmethod
    def of(cls, column: TableColumn) -> ReadColumn:
        if column.element is None:
            kind, readable = _type(column.base, column.precision)
        else:
            kind, readable = _type(column.element, None)
            # Elements of binary type are read as texts.
            kind = f"array<{kind.replace('binary', 'string')}>"
        return cls(
            name=column.name,
            type=kind,
            readable=readable,
            delimiter=column.delimiter,
            type_id=(column.type_oid, column.type_modifier),
            sql_type=column.type,
        )

    @property
    def declared(self) -> str:
        return f"{quoted(self.name)} {self.type}"

    def parsed(self, texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Return the values for Spark's cast, and a mask of values that do not exist in Spark; None if all exist."""
        if self.delimiter is not None:
            lists = [None if text is None else array_elements(text, self.delimiter) for text in texts.to_pylist()]
            fits = [self._fits(elements) for elements in lists]
            values = pa.array(
                [elements if fit else None for elements, fit in zip(lists, fits, strict=True)], pa.list_(pa.string())
            )
            return values, pa.array([not fit for fit in fits])
        if self.readable is None:
            return texts, None
        unfit = compute.invert(compute.match_substring_regex(texts, f"^({self.readable})$"))
        unfit = compute.fill_null(unfit, False)
        return compute.if_else(unfit, pa.scalar(None, pa.string()), texts), unfit

    def _fits(self, elements: Sequence[object] | None) -> bool:
        """Return True for null, and for elements that fit and are not lists: Spark's arrays have one dimension."""
        return elements is None or all(
            element is None
            or (
                isinstance(element, str) and (self.readable is None or re.fullmatch(self.readable, element) is not None)
            )
            for element in elements
        )

    def value(self) -> Column:
        text = named(self.name)
        if self.type == "binary":
            value = F.unhex(F.substr(text, F.lit(3)))
        else:
            value = text if self.type in ("string", "array<string>") else text.cast(self.type)
        return value.alias(self.name)


def decoded(texts: DataFrame, columns: Sequence[ReadColumn], beside: Sequence[str] = ()) -> DataFrame:
    return texts.select(*(column.value() for column in columns), *(named(name) for name in beside))


def as_texts(columns: Sequence[ReadColumn]) -> str:
    return ", ".join(
        f"{quoted(column.name)} {'string' if column.delimiter is None else 'array<string>'}" for column in columns
    )


def may_have_been(column: ReadColumn, type_id: tuple[int, int]) -> bool:
    """Return True if texts of a column's former type are valid for its type, which was widened or has another limit."""
    before, now = type_id[0], column.type_id[0]
    return before == now or any(before in kinds and now in kinds[kinds.index(before) :] for kinds in _WIDENED)


def check_distinct(session: SparkSession, what: str, names: Iterable[str]) -> None:
    """Raise `PrototypeError` if names differ only by case, which Spark ignores."""
    if session.conf.get("spark.sql.caseSensitive") == "true":
        return
    by_lower_case: dict[str, str] = {}
    for name in names:
        other = by_lower_case.setdefault(name.lower(), name)
        if other != name:
            raise PrototypeError(
                f"{what} has the columns {other!r} and {name!r}, which Spark considers equal: rename one of them, or"
                " set spark.sql.caseSensitive to true"
            )


def array_elements(text: str, delimiter: str) -> list[object]:
    lists: list[list[Any]] = [[]]
    # Bounds that do not begin at 1 precede the elements, as in [0:1]={a,b}.
    for token in _tokens(delimiter).finditer(text, text.index("{")):
        match token.lastgroup:
            case "open":
                lists.append([])
            case "close":
                elements = lists.pop()
                lists[-1].append(elements)
            case "quoted":
                lists[-1].append(_ESCAPED.sub(r"\1", token["quoted"]))
            case _:
                lists[-1].append(None if token["plain"] == "NULL" else token["plain"])
    return list(lists[0][0])


@cache
def _tokens(delimiter: str) -> re.Pattern[str]:
    return re.compile(
        r'(?P<open>\{)|(?P<close>\})|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"{}' + re.escape(delimiter) + "]+)",
        re.DOTALL,
    )


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _type(base: str, precision: tuple[int, int] | None) -> tuple[str, str | None]:
    """Return Spark's type for a type of PostgreSQL, and the pattern of the texts that fit it; None if all texts fit."""
    if base != "numeric":
        kind = _TYPES.get(base, "string")
        return kind, _READABLE.get(kind)
    digits, scale = precision or _ANY_NUMERIC
    if not (1 <= digits <= _PRECISION_MAX and 0 <= scale <= digits):
        digits, scale = _ANY_NUMERIC
    return f"decimal({digits},{scale})", rf"-?0*\d{{0,{digits - scale}}}(\.\d{{0,{scale}}}0*)?"


OnUnreadable = Literal["fail", "null", "side-output"]

UNREADABLE = "__unreadable"
"""The column for rows of the side output: the row's texts, and the unreadable columns. Null in all other rows."""

_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadValues:
    """Converts the texts of a table's `columns`, which are the first columns of a batch, to values.

    Errors name a row by its `keys`, or by all columns if it has no key, and mention "side-output" if the reader
    `puts_aside` rows. Then the batch also has the column `UNREADABLE`: a struct of the columns after the table's, of
    the names of unreadable columns, and of the texts of the row.
    """

    table: str
    columns: Sequence[ReadColumn]
    keys: Sequence[str] = ()
    puts_aside: bool = True
    on_unreadable: OnUnreadable = "fail"

    def of(self, texts: pa.RecordBatch) -> pa.RecordBatch:
        """Return the values. Raises `UnreadableValueError` for unreadable values if the rule is to fail."""
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
            f"the column {column.name!r} of {self.table} has the value {value!r} in the row {key[:_SHOWN]}, but"
            f" {column.type} of Spark has no such value: {', '.join(advice)}"
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
