"""Formats of the values of records. A format defines the columns of a value, and decodes values.

Spark parses JSON and CSV in the JVM; fastavro decodes Avro in the Python worker. `on_corrupt` decides about corrupt
values, which cannot be decoded: `fail`, the default, fails the attempt and names the record; `skip` drops and counts
them; `keep` sets all columns to null except `_corrupt_record`, which contains the value as text.
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
    """A format of values. `on_corrupt` is None if no value can be corrupt."""

    on_corrupt: OnCorrupt | None = None

    @abstractmethod
    def schema(self, session: SparkSession) -> StructType:
        """Return the columns of a value. Raises `PrototypeError` if the declared columns cannot be parsed."""

    @abstractmethod
    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        """Return the records with the columns of `schema` instead of `value`. Records without a value are dropped."""


@dataclass(frozen=True, slots=True)
class RawFormat(ValueFormat):
    """The bytes of the value in a column `value`, which may be null; with `text=True` as text."""

    text: bool = False

    def schema(self, session: SparkSession) -> StructType:
        return StructType([StructField("value", StringType() if self.text else BinaryType())])

    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        return records.withColumn("value", F.col("value").cast("string")) if self.text else records


class _Parsed(ValueFormat):
    name: ClassVar[str]
    declared: StructType | str
    on_corrupt: OnCorrupt

    def schema(self, session: SparkSession) -> StructType:
        own = declared_columns(self.declared, f"the columns of {self.name} values")
        corrupt_column = [StructField(CORRUPT_RECORD, StringType())] if self.on_corrupt == "keep" else []
        return StructType([*own.fields, *corrupt_column])

    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        own = StructType([field for field in schema.fields if field.name != CORRUPT_RECORD])
        with_corrupt = StructType([*self._envelope(own).fields, StructField(CORRUPT_RECORD, StringType())])
        text = records.where("value IS NOT NULL").withColumn(_TEXT, F.col("value").cast("string"))
        parsed = text.withColumn(_PARSED, self._parsed(F.col(_TEXT), with_corrupt))
        corrupt = F.col(_PARSED)[CORRUPT_RECORD]
        if self.on_corrupt == "fail":
            # Part of the first column, so that it is computed for every record.
            parsed = parsed.withColumn(_PARSED, refused_if_corrupt(F.col(_PARSED), corrupt, _record(), self.name))
        columns = self._columns(own)
        if self.on_corrupt == "keep":
            columns[CORRUPT_RECORD] = corrupt
        if self.on_corrupt == "skip":
            columns[IS_CORRUPT] = corrupt.isNotNull()
        others = [name for name in records.columns if name != "value" and name not in columns]
        parsed_columns = [column.alias(name) for name, column in columns.items()]
        return self._rows(parsed).select(*parsed_columns, *others)

    @abstractmethod
    def _parsed(self, text: Column, schema: StructType) -> Column:
        """Parse the text. Text that cannot be parsed goes to the schema's column for corrupt text."""

    def _envelope(self, own: StructType) -> StructType:
        return own

    def _rows(self, parsed: DataFrame) -> DataFrame:
        return parsed

    def _columns(self, own: StructType) -> dict[str, Column]:
        return {name: F.col(_PARSED)[name] for name in own.names}


@dataclass(frozen=True, slots=True)
class JsonFormat(_Parsed):
    """Each record is a JSON object with the fields of `declared`, a StructType or DDL text. Others are ignored."""

    name = "JSON"

    declared: StructType | str
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        check_on_corrupt(self.on_corrupt)

    def _parsed(self, text: Column, schema: StructType) -> Column:
        return F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD})


@dataclass(frozen=True, slots=True)
class CsvFormat(_Parsed):
    """Each record is a CSV line, with the columns of `declared` in order, separated by `sep`."""

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

    A change becomes a row with the columns of `declared`, with their values after the change (before it for a
    deletion), and with `row_kind`: `+I` for a new row or a row of the snapshot, `+U` for a changed row, `-D` for a
    deleted row (Flink's RowKind). `ts_ms` is the time at which Debezium's connector has processed the change.
    """

    name = "Debezium JSON"

    declared: StructType | str
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        check_on_corrupt(self.on_corrupt)

    def schema(self, session: SparkSession) -> StructType:
        """Return the columns of the table, the kind of the change, and its time."""
        own = declared_columns(self.declared, f"the columns of {self.name} values")
        corrupt_column = [StructField(CORRUPT_RECORD, StringType())] if self.on_corrupt == "keep" else []
        more = [StructField(ROW_KIND, StringType()), StructField("ts_ms", LongType())]
        return StructType([*own.fields, *more, *corrupt_column])

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
        # Truncations and messages are not changes of a row.
        is_change = _row_kind().isNotNull() | F.col(_PARSED)[CORRUPT_RECORD].isNotNull()
        return parsed.where(is_change)


_KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}
"""The kinds of rows by Debezium's letters for operations: created, read, updated, deleted."""


def _of_change(name: str) -> Column:
    return F.coalesce(F.col(_PARSED)["payload"][name], F.col(_PARSED)[name])


def _row_kind() -> Column:
    return F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))[_of_change("op")]


def check_on_corrupt(on_corrupt: str) -> None:
    if on_corrupt not in ("fail", "skip", "keep"):
        raise ValueError(f"on_corrupt is 'fail', 'skip' or 'keep', not {on_corrupt!r}")


def _record() -> Column:
    where = (F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" at offset "), F.col("offset"))
    return F.concat(F.lit("the record of "), *where)
