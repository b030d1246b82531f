"""Formats of the values of records: each says which columns a value becomes, and decodes it.

JSON and CSV are parsed by Spark, in the JVM; Avro is decoded by fastavro, where the record is read. A value that cannot
be decoded is corrupt, and `on_corrupt` says what becomes of it: `fail`, the default, ends the attempt and names the
record; `skip` leaves it out, and it is counted; `keep` leaves all columns null but `_corrupt_record`, which holds the
value as text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from flykka.spark_bridge.program.prototype import declared_columns
from flykka.spark_bridge.rows.marks import IS_CORRUPT, refused_if_corrupt
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OnCorrupt = Literal["fail", "skip", "keep"]

CORRUPT_RECORD = "_corrupt_record"
_PARSED, _TEXT = "__parsed", "__text"


class ValueFormat(ABC):
    """A format; `on_corrupt` is None where nothing can be corrupt."""

    on_corrupt: OnCorrupt | None = None

    @abstractmethod
    def schema(self, session: SparkSession) -> StructType:
        """The columns that a value becomes. Raises `PrototypeError` where the declared ones cannot be read."""

    @abstractmethod
    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        """The records with the columns of `schema` instead of `value`; of a record without a value there is nothing."""


@dataclass(frozen=True, slots=True)
class RawFormat(ValueFormat):
    """The bytes of the value as they are, in a column `value`, null where there is none; as text with `text=True`."""

    text: bool = False

    def schema(self, session: SparkSession) -> StructType:
        return StructType([StructField("value", StringType() if self.text else BinaryType())])

    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        return records.withColumn("value", F.col("value").cast("string")) if self.text else records


class _Parsed(ValueFormat):
    """A format that Spark parses."""

    name: ClassVar[str]
    declared: StructType | str
    on_corrupt: OnCorrupt

    def schema(self, session: SparkSession) -> StructType:
        own = declared_columns(self.declared, f"the columns of {self.name} values")
        kept = [StructField(CORRUPT_RECORD, StringType())] if self.on_corrupt == "keep" else []
        return StructType([*own.fields, *kept])

    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        own = StructType([field for field in schema.fields if field.name != CORRUPT_RECORD])
        with_corrupt = StructType([*self._envelope(own).fields, StructField(CORRUPT_RECORD, StringType())])
        text = records.where("value IS NOT NULL").withColumn(_TEXT, F.col("value").cast("string"))
        parsed = text.withColumn(_PARSED, self._parsed(F.col(_TEXT), with_corrupt))
        corrupt = F.col(_PARSED)[CORRUPT_RECORD]
        if self.on_corrupt == "fail":
            # In the first column, so that it is computed for every record.
            parsed = parsed.withColumn(_PARSED, refused_if_corrupt(F.col(_PARSED), corrupt, _record(), self.name))
        columns = self._columns(own)
        if self.on_corrupt == "keep":
            columns[CORRUPT_RECORD] = corrupt
        if self.on_corrupt == "skip":
            columns[IS_CORRUPT] = corrupt.isNotNull()
        others = [name for name in records.columns if name != "value" and name not in columns]
        made = [column.alias(name) for name, column in columns.items()]
        return self._rows(parsed).select(*made, *others)

    @abstractmethod
    def _parsed(self, text: Column, schema: StructType) -> Column:
        """Parse; what cannot be parsed is in the column of the schema for it."""

    def _envelope(self, own: StructType) -> StructType:
        return own

    def _rows(self, parsed: DataFrame) -> DataFrame:
        return parsed

    def _columns(self, own: StructType) -> dict[str, Column]:
        return {name: F.col(_PARSED)[name] for name in own.names}


@dataclass(frozen=True, slots=True)
class JsonFormat(_Parsed):
    """An object of JSON per record, with the fields of `declared`, a StructType or DDL text; others are passed over."""

    name = "JSON"

    declared: StructType | str
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        check_on_corrupt(self.on_corrupt)

    def _parsed(self, text: Column, schema: StructType) -> Column:
        return F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD})


@dataclass(frozen=True, slots=True)
class CsvFormat(_Parsed):
    """A line of CSV per record, with the columns of `declared` in their order; `sep` stands between them."""

    name = "CSV"

    declared: StructType | str
    sep: str = ","
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        check_on_corrupt(self.on_corrupt)

    def _parsed(self, text: Column, schema: StructType) -> Column:
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD, "sep": self.sep}
        return F.from_csv(text, schema.toDDL(), options)


@dataclass(frozen=True, slots=True)
class DebeziumJsonFormat(_Parsed):
    """Changes of a table as Debezium writes them, with or without the schema in each record.

    A change becomes a row with the columns of `declared` as they are after it, or were before a deletion, and with
    `row_kind`: `+I` where the row is new or was there at the snapshot, `+U` where it was changed, `-D` where it was
    deleted (Flink's RowKind). `ts_ms` is when the connector has seen it.
    """

    name = "Debezium JSON"

    declared: StructType | str
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        check_on_corrupt(self.on_corrupt)

    def schema(self, session: SparkSession) -> StructType:
        """The columns of the table, the kind of the change, and its time."""
        own = declared_columns(self.declared, f"the columns of {self.name} values")
        kept = [StructField(CORRUPT_RECORD, StringType())] if self.on_corrupt == "keep" else []
        more = [StructField(ROW_KIND, StringType()), StructField("ts_ms", LongType())]
        return StructType([*own.fields, *more, *kept])

    def _parsed(self, text: Column, schema: StructType) -> Column:
        return F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD})

    def _envelope(self, own: StructType) -> StructType:
        row = StructType([field for field in own.fields if field.name not in (ROW_KIND, "ts_ms")])
        change = [StructField("before", row), StructField("after", row), StructField("op", StringType())]
        change.append(StructField("ts_ms", LongType()))
        return StructType([*change, StructField("payload", StructType(change))])

    def _columns(self, own: StructType) -> dict[str, Column]:
        row = F.coalesce(_of_change("after"), _of_change("before"))
        columns = {name: row[name] for name in own.names if name not in (ROW_KIND, "ts_ms")}
        return {**columns, ROW_KIND: _row_kind(), "ts_ms": _of_change("ts_ms")}

    def _rows(self, parsed: DataFrame) -> DataFrame:
        # Neither a truncation nor a message is a change of a row.
        is_change = _row_kind().isNotNull() | F.col(_PARSED)[CORRUPT_RECORD].isNotNull()
        return parsed.where(is_change)


_KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}
"""The kinds of rows by Debezium's letters: created, read, updated, deleted."""


def _of_change(name: str) -> Column:
    return F.coalesce(F.col(_PARSED)["payload"][name], F.col(_PARSED)[name])


def _row_kind() -> Column:
    return F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))[_of_change("op")]


def check_on_corrupt(on_corrupt: str) -> None:
    """Raise `ValueError` where this is not the name of what becomes of corrupt values."""
    if on_corrupt not in ("fail", "skip", "keep"):
        raise ValueError(f"on_corrupt is 'fail', 'skip' or 'keep', not {on_corrupt!r}")


def _record() -> Column:
    where = (F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" at offset "), F.col("offset"))
    return F.concat(F.lit("the record of "), *where)
