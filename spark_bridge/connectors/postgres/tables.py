"""Tables as described by the database's catalog, looked up by the names that users write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

CHECKPOINTS = "flykka_checkpoints"
"""The table of published checkpoints, in the schema of the tables to which sinks write."""

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid::bigint, a.atttypmod,
       base.typname, base.typcategory::text, element.typname, element.typdelim::text,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       a.attnotnull OR t.typnotnull,
       a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '', a.attidentity = 'a',
       a.attnum, (a.attmissingval::text::text[])[1]
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type base ON base.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type element ON element.oid = base.typelem AND element.typarray = base.oid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_FIELDS = (
    "name",
    "type",
    "type_oid",
    "type_modifier",
    "base",
    "category",
    "element",
    "delimiter",
    "modifier",
    "is_not_null",
    "has_default",
    "is_generated",
    "is_identity",
    "number",
    "missing_value",
)

_UNIQUE = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary
ORDER BY i.indisprimary DESC, i.indexrelid
"""

_TABLE = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column. `type` is the declared type, `base` the name of the type below domains, `category` PostgreSQL's
    category.

    For an array, `element` is the type of its elements, and `delimiter` separates them. `modifier` contains the
    precision of a numeric. `type_oid` and `type_modifier` are the type in the log, which may be a domain. If
    `is_identity`, the database always generates the column's values, like those of a generated column. `number` is the
    attribute number, which stays when the column is renamed. `missing_value` is the text of the value in rows that are
    older than the column (`attmissingval`).
    """

    name: str
    type: str
    base: str
    category: str
    type_oid: int = 0
    type_modifier: int = -1
    element: str | None = None
    delimiter: str | None = None
    modifier: int = -1
    is_not_null: bool = False
    has_default: bool = False
    is_generated: bool = False
    is_identity: bool = False
    number: int = 0
    missing_value: str | None = None

    @property
    def value_of_older_rows(self) -> tuple[str | None] | None:
        """The value in rows that are older than the column; None if the catalog does not contain it."""
        if self.missing_value is not None:
            return (self.missing_value,)
        return None if self.is_not_null or self.has_default else (None,)

    @property
    def precision(self) -> tuple[int, int] | None:
        if self.base != "numeric" or self.modifier < 0:
            return None
        packed = self.modifier - 4
        scale = packed & 0x7FF
        return packed >> 16 & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, view or foreign table. `unique` are the columns of its unique indexes, beginning with the primary key.

    `kind` is the catalog's letter.
    """

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[TableColumn, ...]
    unique: tuple[tuple[str, ...], ...]

    @classmethod
    def find(cls, connection: psycopg.Connection[Any], name_in_sql: str) -> Self | None:
        row = connection.execute(_TABLE, (name_in_sql,)).fetchone()
        if row is None:
            return None
        oid, schema, name, kind = row
        return cls(
            oid=oid,
            schema=schema,
            name=name,
            kind=kind,
            columns=cls.columns_of(connection, oid),
            unique=tuple(tuple(columns) for (columns,) in connection.execute(_UNIQUE, (oid,)).fetchall()),
        )

    @staticmethod
    def columns_of(connection: psycopg.Connection[Any], oid: int) -> tuple[TableColumn, ...]:
        rows = connection.execute(_COLUMNS, (oid,)).fetchall()
        return tuple(TableColumn(**dict(zip(_FIELDS, row, strict=True))) for row in rows)

    @property
    def identifier(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self.schema, self.name)

    @property
    def checkpoints(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self.schema, CHECKPOINTS)

    def has_checkpoints(self, connection: psycopg.Connection[Any]) -> bool:
        there = connection.execute("SELECT to_regclass(%s)", (self.checkpoints.as_string(connection),)).fetchone()
        return there is not None and there[0] is not None

    @property
    def column_numbers(self) -> tuple[int, ...]:
        return tuple(column.number for column in self.columns)

    def column(self, name: str) -> TableColumn | None:
        return next((each for each in self.columns if each.name == name), None)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def names_of(connection: psycopg.Connection[Any], name_in_sql: str) -> tuple[str, str]:
    """Return the schema and name of a table to be created. Raises `psycopg.Error` for an invalid name."""
    row = connection.execute("SELECT parse_ident(%s), current_schema()", (name_in_sql,)).fetchone()
    assert row is not None
    parts, current = row
    *schema, name = parts
    return (schema[-1] if schema else current or "public"), name
