"""Rows that are to be published, beside the columns that the table has by then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from flykka.spark_bridge.connectors.delta.columns import columns_of, delta_schema, misfit, new_columns
from flykka.spark_bridge.connectors.delta.table import facts_of, has_deletion_vectors
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction

_APPEND_ONLY = "delta.appendOnly"


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
    removes: bool,
) -> DeltaTable:
    """The table with all columns of the rows: new ones are added in a commit of their own, if that is wanted.

    Raises:
        SinkError: the rows do not fit; the text names column and types.
    """
    wrong = unwritable(location.path, table, partition_by, removes=removes)
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


def unwritable(path: str, table: DeltaTable, partition_by: Sequence[str], *, removes: bool) -> str | None:
    """Tell why a table cannot be written to as it is, by a sink that `removes` files or adds alone; None if it can."""
    facts = facts_of(table)
    feature = facts.unwritable()
    if feature is not None:
        return (
            f"{path} is a Delta table with {feature}, which flykka cannot keep to when it adds files: take it off the"
            " table, or write to another one"
        )
    if removes and facts.properties.get(_APPEND_ONLY) == "true":
        return f"{path} is append-only ({_APPEND_ONLY}), and the sink replaces rows: use DeltaSink.append"
    if removes and has_deletion_vectors(table):
        return (
            f"{path} has files with deletion vectors, which the sink cannot replace: use DeltaSink.append, or have them"
            " rewritten first, with REORG TABLE ... APPLY (PURGE)"
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
