"""Tables of generated rows: its type and the options `fields.<column>.<...>` define each column."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql.types import StructField

from flykka.spark_bridge.connectors.datagen import (
    DataGenSource,
    Field,
    FieldGenerator,
    choice,
    random_double,
    random_int,
    sequence,
    timestamps,
)
from flykka.spark_bridge.sql.connectors.table_connector import Declared, OptionError, TableConnector, TableOptions

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FRACTIONS = frozenset({"float", "double"})
_ARGUMENTS = ("start", "step", "minimum", "maximum", "values")


@dataclass(frozen=True, slots=True)
class _OfType:
    """The column of a generator, in the declared type."""

    generator: FieldGenerator
    type_name: str

    def __call__(self, field: Field) -> Column:
        return self.generator(field).cast(self.type_name)


def _source(declared: Declared) -> DataGenSource:
    options, columns = declared.options, declared.required_columns()
    _check_fields(declared)
    return DataGenSource(
        {field.name: _OfType(_generator(field, options), field.dataType.simpleString()) for field in columns},
        number_of_rows=options.number("number_of_rows"),
        rows_per_second=options.rate("rows_per_second"),
        rows_per_batch=options.number("rows_per_batch") or 100_000,
        seed=options.number("seed") or 0,
    )


def _check_fields(declared: Declared) -> None:
    columns = declared.required_columns().names
    for key in declared.options.with_prefix("fields."):
        column, _, argument = key.rpartition(".")
        if column not in columns:
            raise OptionError(f"there is no column {column!r}; the columns are {', '.join(columns)}", f"fields.{key}")
        if argument not in _ARGUMENTS:
            raise OptionError(f"the options of a field are {', '.join(_ARGUMENTS)}, not {argument!r}", f"fields.{key}")


def _generator(field: StructField, options: TableOptions) -> FieldGenerator:
    name, kind = f"fields.{field.name}", field.dataType.simpleString()
    values = options.names(f"{name}.values")
    if values:
        return choice(*values)
    if kind in _NUMBERS:
        least, most = options.number(f"{name}.minimum"), options.number(f"{name}.maximum")
        if least is None and most is None:
            step = options.number(f"{name}.step")
            return sequence(options.number(f"{name}.start") or 0, 1 if step is None else step)
        return random_int(least or 0, 1_000_000 if most is None else most)
    if kind in _FRACTIONS:
        least_part, most_part = options.rate(f"{name}.minimum"), options.rate(f"{name}.maximum")
        return random_double(least_part or 0.0, 1.0 if most_part is None else most_part)
    if kind == "timestamp":
        return timestamps(options.text(f"{name}.start") or "2026-01-01", options.text(f"{name}.step") or "1s")
    if kind == "boolean":
        return choice(True, False)
    raise OptionError(
        f"values of type {kind} cannot be generated: the option '{name}.values' lists the values of {field.name}, and"
        " a view computes the rest"
    )


DATAGEN = TableConnector(
    name="datagen",
    options=("fields.", "number_of_rows", "rows_per_second", "rows_per_batch", "seed"),
    source=_source,
)
