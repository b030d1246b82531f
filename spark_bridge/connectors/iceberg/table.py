"""An Iceberg table, by its catalog and its name: opened through pyiceberg for one piece of work, as it is then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.rows.nullable import nullable
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql.types import StructType

Properties = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name with its namespace, and the catalog that has it, with the properties to load this by."""

    identifier: str
    catalog: str
    properties: Properties = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.identifier}"

    @contextmanager
    def opened(self) -> Iterator[Table]:
        """Open the table. Raises `SinkError` where the catalog does not have it, or does not answer."""
        with closing(self._loaded()) as catalog:
            yield self._table(catalog)

    def _loaded(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(self.catalog, **dict(self.properties))
        except Exception as refused:
            raise SinkError(f"the Iceberg catalog {self.catalog!r} cannot be loaded: {refused}") from refused

    def _table(self, catalog: Catalog) -> Table:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            raise SinkError(
                f"there is no Iceberg table {self.identifier} in the catalog {self.catalog!r}: create it"
            ) from None
        except Exception as refused:
            raise SinkError(f"the Iceberg table {self} cannot be loaded: {refused}") from refused


def columns_of(table: Table) -> StructType:
    """The columns of a table, by Spark's types."""
    return from_arrow_schema(table.schema().as_arrow(), prefer_timestamp_ntz=True)


def data_path(table: Table) -> str:
    """The folder of the files of a table."""
    from pyiceberg.table import TableProperties

    return table.properties.get(TableProperties.WRITE_DATA_PATH, f"{table.location().rstrip('/')}/data")


def iceberg_columns(rows: StructType) -> pa.Schema:
    """Columns of Spark's as pyiceberg takes them. All may hold nulls: staged rows may."""
    return arrow_schema(nullable(rows))


def unwritable(table: Table) -> str | None:
    """Tell why files that Spark has written cannot be added; None where they can."""
    if not table.spec().is_unpartitioned():
        by = ", ".join(field.name for field in table.spec().fields)
        return f"it is partitioned by {by}, and files are added to tables without partitions alone"
    if required := [field.name for field in table.schema().fields if field.required]:
        return f"its column {required[0]!r} is required, and files of Spark's may have nulls: make it optional"
    return None
