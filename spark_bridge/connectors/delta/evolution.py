"""Rows that are to be published, beside the columns that the table has by then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from flykka.spark_bridge.connectors.delta.columns import columns_of, delta_schema, misfit, new_columns
from flykka.spark_bridge.connectors.delta.table import facts_of
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction


def schema_of(transaction: Transaction) -> StructType:
    """The columns of the rows of a transaction. Those of one checkpoint come from one program, and agree."""
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
) -> DeltaTable:
    """The table with all columns of the rows: new ones are added in a commit of their own, if that is wanted.

    Raises:
        SinkError: the rows do not fit; the text names column and types.
    """
    wrong = unwritable(location.path, table, partition_by)
    if wrong is not None:
        raise SinkError(wrong)
    columns = columns_of(table)
    wrong = misfit(columns, rows, merges_schema=merges_schema)
    if wrong is not None:
        raise SinkError(f"rows cannot be written to {location.path}: {wrong}")
    added = new_columns(columns, rows)
    if added.fields:
        table.alter.add_columns(delta_schema(added).fields)
        return location.open()
    return table


def unwritable(path: str, table: DeltaTable, partition_by: Sequence[str]) -> str | None:
    """Tell why a table cannot be written to as it is; None where it can."""
    feature = facts_of(table).unwritable()
    if feature is not None:
        return (
            f"{path} is a Delta table with {feature}, which flykka cannot keep to when it adds files: take it off the"
            " table, or write to another one"
        )
    there = table.metadata().partition_columns
    if there != list(partition_by):
        return (
            f"{path} is partitioned by {_listed(there)}, and the sink by {_listed(partition_by)}: say"
            f" partition_by({', '.join(map(repr, there))})"
        )
    return None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "no column"
