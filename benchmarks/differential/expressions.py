"""Random expressions in Spark SQL.

They are defined for all values, never fail, and are equal for rows that count as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.differential.choices import Choices


@dataclass(frozen=True)
class Column:
    """A column of some rows; `of` is the alias of its table, if any."""

    name: str
    type: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.of}.{quoted(self.name)}" if self.of else quoted(self.name)


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def typed(columns: Sequence[Column], *types: str) -> list[Column]:
    return [column for column in columns if column.type in types]


# `{0}` is a column of the type that is the key; the type of the result follows the colon.
_FORMS: dict[str, tuple[str, ...]] = {
    "bigint": ("{0} + 1:bigint", "{0} % 3:bigint", "CAST({0} AS STRING):string", "-{0}:bigint"),
    "int": ("{0} * 2:int", "coalesce({0}, 7):int", "abs({0}):int", "CASE WHEN {0} > 0 THEN 'up' ELSE 'no' END:string"),
    "double": ("{0} + 0.25D:double", "{0} * 2:double", "abs({0}):double", "coalesce({0}, 0.5D):double"),
    "decimal(10,2)": ("CAST({0} / 2 AS DECIMAL(10,2)):decimal(10,2)", "-{0}:decimal(10,2)", "abs({0}):decimal(10,2)"),
    "string": ("upper({0}):string", "length({0}):int", "coalesce({0}, '?'):string", "concat({0}, '!'):string"),
    "timestamp": (
        "{0} + INTERVAL 1 HOUR:timestamp",
        "date_trunc('DAY', {0}):timestamp",
        "hour({0}):int",
        "CAST({0} AS DATE):date",
        "CAST({0} AS STRING):string",
        "unix_micros({0}):bigint",
    ),
    "boolean": ("NOT {0}:boolean", "coalesce({0}, false):boolean"),
    "date": ("year({0}):int", "CAST({0} AS STRING):string", "dayofweek({0}):int", "CAST({0} AS TIMESTAMP):timestamp"),
}
_CONDITIONS: dict[str, tuple[str, ...]] = {
    "bigint": ("{0} > 1", "{0} % 2 = 0", "{0} BETWEEN 1 AND 6"),
    "int": ("{0} > 0", "{0} IS NULL", "{0} IN (0, 2)", "{0} <=> NULL", "NOT {0} = 1"),
    "double": ("{0} >= 0", "isnan({0})", "{0} = 0", "{0} IS NOT NULL", "{0} < 1.5"),
    "decimal(10,2)": ("{0} > 0", "{0} = 0.01", "{0} IS NULL"),
    "string": ("{0} = ''", "{0} LIKE 'a%'", "{0} <> 'a'", "{0} IS NULL", "length({0}) > 0", "{0} IN ('a', 'b')"),
    "timestamp": ("{0} < TIMESTAMP '1970-01-01 00:00:00 UTC'", "{0} IS NOT NULL", "minute({0}) < 31"),
    "boolean": ("{0}", "NOT {0}", "{0} IS NULL"),
    "date": ("{0} > DATE '1970-01-01'", "{0} IS NULL"),
}
_AGGREGATES: dict[str, tuple[str, ...]] = {
    "bigint": ("sum({0}):bigint", "max({0}):bigint", "count({0}):bigint", "avg({0}):double", "min({0}):bigint"),
    "int": ("sum({0}):bigint", "min({0}):int", "avg({0}):double", "count({0}):bigint", "max({0}):int"),
    "double": ("sum({0}):double", "max({0}):double", "avg({0}):double", "min({0}):double", "count({0}):bigint"),
    "decimal(10,2)": ("sum({0}):decimal(20,2)", "max({0}):decimal(10,2)", "avg({0}):decimal(14,6)"),
    "string": ("min({0}):string", "max({0}):string", "count({0}):bigint"),
    "timestamp": ("max({0}):timestamp", "min({0}):timestamp", "count({0}):bigint"),
    "boolean": ("max({0}):boolean", "count({0}):bigint"),
    "date": ("min({0}):date", "max({0}):date"),
}
_DISTINCT = ("count(DISTINCT {0}):bigint", "sum(DISTINCT {0}):bigint")


def expression(choices: Choices, columns: Sequence[Column]) -> tuple[str, str]:
    column = choices.of(columns)
    text, type_ = choices.of((f"{{0}}:{column.type}", *_FORMS.get(column.type, ()))).rsplit(":", 1)
    return text.format(column), type_


def condition(choices: Choices, columns: Sequence[Column]) -> str:
    column = choices.of(columns)
    text = choices.of(_CONDITIONS.get(column.type, ("{0} IS NOT NULL",))).format(column)
    if choices.percent(25):
        text = f"({text}) {choices.of(('AND', 'OR'))} ({condition(choices, columns)})"
    return text


def aggregate(choices: Choices, columns: Sequence[Column], *, plain: bool = False) -> tuple[str, str]:
    """Draw an aggregate and return it with its type; if it is `plain`, it has neither DISTINCT nor a filter."""
    text, type_ = "count(*)", "bigint"
    if choices.percent(80):
        column = choices.of(columns)
        forms = _AGGREGATES.get(column.type, ("count({0}):bigint",))
        if not plain and column.type in ("int", "bigint") and choices.percent(30):
            forms = _DISTINCT
        text, type_ = choices.of(forms).rsplit(":", 1)
        text = text.format(column)
    if not plain and choices.percent(15):
        text += f" FILTER (WHERE {condition(choices, columns)})"
    return text, type_
