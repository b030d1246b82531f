"""Columns of a table as columns of rows: which type a value has in Spark, and how it is made of PostgreSQL's text.

Values come as the texts that PostgreSQL writes, from COPY and from logical decoding alike, and are cast by Spark, in
the JVM. Arrays come as JSON. What Spark has no type for stays a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.postgres.written_types import named

if TYPE_CHECKING:
    from psycopg import sql
    from pyspark.sql import Column, DataFrame

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
_ANY_NUMERIC = "decimal(38,18)"
_PRECISION_MAX = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumn:
    """A column that is read. `type` is Spark's, `is_array` says that its text is made JSON."""

    name: str
    type: str
    is_array: bool = False

    @classmethod
    def of(cls, column: TableColumn) -> ReadColumn:
        """The column for one of a table's."""
        if column.element is None:
            return cls(name=column.name, type=_type(column))
        # Elements of binary are texts: JSON has none.
        element = _TYPES.get(column.element, "string").replace("binary", "string")
        element = _ANY_NUMERIC if column.element == "numeric" else element
        return cls(name=column.name, type=f"array<{element}>", is_array=True)

    @property
    def declared(self) -> str:
        """The column as DDL has it."""
        return f"{quoted(self.name)} {self.type}"

    def value(self) -> Column:
        """The value, made of its text."""
        text = named(self.name)
        if self.is_array:
            made = F.from_json(text, "array<string>").cast(self.type)
        elif self.type == "binary":
            made = F.unhex(F.substr(text, F.lit(3)))
        else:
            made = text if self.type == "string" else text.cast(self.type)
        return made.alias(self.name)

    def selected(self) -> sql.Composable:
        """The column in a query whose result is copied."""
        from psycopg import sql

        name = sql.Identifier(self.name)
        return sql.SQL("to_json({})").format(name) if self.is_array else name


def decoded(texts: DataFrame, columns: Sequence[ReadColumn], beside: Sequence[str] = ()) -> DataFrame:
    """Rows of texts as rows of values; columns `beside` are as they are."""
    return texts.select(*(column.value() for column in columns), *(named(name) for name in beside))


def as_texts(columns: Sequence[ReadColumn]) -> str:
    """The columns as they are before they are decoded, as DDL."""
    return ", ".join(f"{quoted(column.name)} string" for column in columns)


def array_as_json(text: str) -> str:
    """The JSON of an array as PostgreSQL writes it: `{a,"b c",NULL}` is `["a", "b c", null]`."""
    # Bounds that do not begin at 1 stand before it, as in [0:1]={a,b}.
    body = text[text.index("{") :]
    return json.dumps(_elements(iter(body[1:])))


def _elements(rest: Iterator[str]) -> list[object]:
    """The elements up to the closing brace."""
    found: list[object] = []
    word, is_quoted = "", False
    for letter in rest:
        if letter == "{":
            found.append(_elements(rest))
            word, is_quoted = "", True
        elif letter == '"':
            found.append(_quoted(rest))
            is_quoted = True
        elif letter in ",}":
            if not is_quoted and word:
                found.append(None if word.upper() == "NULL" else word)
            if letter == "}":
                return found
            word, is_quoted = "", False
        else:
            word += letter
    raise ValueError("the array does not end")


def _quoted(rest: Iterator[str]) -> str:
    """The text up to the closing quote."""
    text = ""
    for letter in rest:
        if letter == '"':
            return text
        text += next(rest) if letter == "\\" else letter
    raise ValueError("the text does not end")


def _type(column: TableColumn) -> str:
    if column.base != "numeric":
        return _TYPES.get(column.base, "string")
    if column.precision is None:
        return _ANY_NUMERIC
    precision, scale = column.precision
    fits = 1 <= precision <= _PRECISION_MAX and 0 <= scale <= precision
    return f"decimal({precision},{scale})" if fits else _ANY_NUMERIC
