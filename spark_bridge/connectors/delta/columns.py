"""Compares the columns of rows and of a table by name and type, which Delta and Spark write as the same JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
)

from flykka.spark_bridge.connectors.delta.table import facts_of, has_deletion_vectors
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.rows.type_support import nullable, parts_of

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction

_NAME_FOLDERS: tuple[type[DataType], ...] = (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)
"""Types of partition columns whose values Delta and Spark write in the same way, in any time zone."""


_PRIMITIVE = frozenset(
    {
        "bigint",
        "binary",
        "boolean",
        "date",
        "double",
        "float",
        "int",
        "smallint",
        "string",
        "timestamp",
        "timestamp_ntz",
        "tinyint",
    }
)


def spark_schema(columns: Any) -> StructType:
    return StructType.fromJson(columns)


def columns_of(table: DeltaTable) -> StructType:
    return spark_schema(json.loads(table.schema().to_json()))


def delta_schema(rows: StructType) -> Schema:
    """Return the schema of a new table for these rows. All columns are nullable, as staged rows may contain nulls."""
    from deltalake import Schema

    return Schema.from_json(nullable(rows).json())


def new_columns(table: StructType, rows: StructType) -> StructType:
    existing = set(table.names)
    return StructType([field for field in rows if field.name not in existing])


def schema_mismatch(table: StructType, rows: StructType, *, merges_schema: bool) -> str | None:
    """Explain why rows with these columns cannot be written to the table; None if they can be written.

    Columns that the rows lack become null.
    """
    by_name = {field.name: field for field in table}
    by_lower_case = {name.lower(): name for name in by_name}
    for field in rows:
        name, row_type = field.name, field.dataType.simpleString()
        table_field = by_name.get(name)
        if table_field is None and name.lower() in by_lower_case:
            return (
                f"the rows have a column {name!r}, which is called {by_lower_case[name.lower()]!r} in the table:"
                " rename it"
            )
        if table_field is None and not merges_schema:
            return (
                f"the rows have a column {name!r} (of type {row_type}), which the table does not have; its columns are"
                f" {', '.join(table.names)}: leave it out, or add it to the table with merge_schema()"
            )
        if table_field is not None and table_field.dataType.simpleString() != row_type:
            table_type = table_field.dataType.simpleString()
            return (
                f"the column {name!r} is of type {row_type} in the rows, and of type {table_type} in the table: cast it"
            )
    given_names = set(rows.names)
    for field in table:
        if not field.nullable and field.name not in given_names:
            return f"the rows have no column {field.name!r}, which must not be null in the table"
    return None


def unknown_type(rows: StructType, *, is_new: bool) -> str | None:
    """Explain which column has a type that Delta, or only a new table, does not support; None if all are supported."""
    for field in rows:
        if is_new and any(_is_map_of_local_times(part) for part in parts_of(field.dataType)):
            # A new table does not declare the required feature, since deltalake does not check types in maps.
            return f"a new Delta table supports no maps of timestamp_ntz, such as {field.name!r}: cast it to timestamp"
        if not _is_known(field.dataType):
            return (
                f"a Delta table supports no columns of type {field.dataType.simpleString()}, such as {field.name!r}:"
                " cast it"
            )
    return None


def partition_mismatch(rows: StructType, partition_by: Sequence[str]) -> str | None:
    if missing := [name for name in partition_by if name not in rows.names]:
        return f"there is no column {missing[0]!r} to partition by; the columns are {', '.join(rows.names)}"
    for field in rows:
        if field.name in partition_by and not isinstance(field.dataType, _NAME_FOLDERS):
            return (
                f"a Delta table cannot be partitioned by {field.name!r} of type {field.dataType.simpleString()} here:"
                " convert the column to a date, text, boolean or number"
            )
    return None


def _is_map_of_local_times(data_type: DataType) -> bool:
    return isinstance(data_type, MapType) and any(isinstance(each, TimestampNTZType) for each in parts_of(data_type))


def _is_known(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return all(_is_known(field.dataType) for field in data_type)
        case ArrayType():
            return _is_known(data_type.elementType)
        case MapType():
            return _is_known(data_type.keyType) and _is_known(data_type.valueType)
        case DecimalType():
            return True
        case _:
            return data_type.simpleString() in _PRIMITIVE


_APPEND_ONLY = "delta.appendOnly"


def schema_of(transaction: Transaction) -> StructType:
    """Return the columns of a transaction's rows. All batches of a checkpoint come from one program, so they agree."""
    schemas = {batch.schema for batch in transaction.batches}
    assert len(schemas) == 1, f"checkpoint {transaction.checkpoint_id} has rows of {len(schemas)} schemas"
    return StructType.fromJson(json.loads(schemas.pop()))


def fitted(
    location: TableLocation,
    table: DeltaTable,
    rows: StructType,
    *,
    partition_by: Sequence[str],
    merges_schema: bool,
    removes: bool,
) -> DeltaTable:
    """Return the table with all columns of the rows. New columns are added in a separate commit, if configured.

    Raises:
        SinkError: the rows do not fit; the message names column and types.
    """
    wrong = unwritable(location.path, table, partition_by, removes=removes)
    if wrong is not None:
        raise SinkError(wrong)
    columns = columns_of(table)
    wrong = schema_mismatch(columns, rows, merges_schema=merges_schema)
    if wrong is not None:
        raise SinkError(f"rows cannot be written to {location.path}: {wrong}")
    added = new_columns(columns, rows)
    if added.fields:
        table.alter.add_columns(delta_schema(added).fields)
        return location.open()
    return table


def unwritable(path: str, table: DeltaTable, partition_by: Sequence[str], *, removes: bool) -> str | None:
    """Explain why a sink that adds or, with `removes`, removes files cannot write to a table; None if it can."""
    facts = facts_of(table)
    feature = facts.unwritable()
    if feature is not None:
        return (
            f"{path} is a Delta table with {feature}, which flykka does not support for writing: remove it from the"
            " table, or write to another table"
        )
    if removes and facts.properties.get(_APPEND_ONLY) == "true":
        return f"{path} is append-only ({_APPEND_ONLY}), but the sink replaces rows: use DeltaSink.append"
    if removes and has_deletion_vectors(table):
        return (
            f"{path} has files with deletion vectors, which the sink cannot replace: use DeltaSink.append, or have them"
            " rewritten first, with REORG TABLE ... APPLY (PURGE)"
        )
    there = table.metadata().partition_columns
    if there != list(partition_by):
        return (
            f"{path} is partitioned by {_listed(there)}, but the sink by {_listed(partition_by)}: use"
            f" partition_by({', '.join(map(repr, there))})"
        )
    return None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "no column"
