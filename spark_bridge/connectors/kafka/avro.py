"""AvroFormat: Avro records as values, decoded by fastavro in Spark's Python workers.

Types are converted as by Spark's own reader: a union of null and a type is that type, a fixed is bytes, an enum is
text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flykka.spark_bridge.connectors.connector import require
from flykka.spark_bridge.connectors.kafka.formats import CORRUPT_RECORD, OnCorrupt, ValueFormat, check_on_corrupt
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.marks import IS_CORRUPT
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REGISTRY_HEADER_BYTES = 5

_PRIMITIVE: Mapping[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_LOGICAL: Mapping[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_REFUSED = frozenset({"time-millis", "time-micros", "duration"})


@dataclass(frozen=True, slots=True)
class AvroFormat(ValueFormat):
    """Each value is an Avro record, written with `avro_schema`, a JSON string.

    With `registry_header`, the five bytes that serializers of a schema registry write before the record are skipped.
    """

    avro_schema: str
    registry_header: bool = False
    on_corrupt: OnCorrupt = "fail"

    def __post_init__(self) -> None:
        require("fastavro", extra="avro", what="an AvroFormat")
        check_on_corrupt(self.on_corrupt)

    def schema(self, session: SparkSession) -> StructType:
        """Return the fields of the record. Raises `PrototypeError` for an invalid schema or unsupported type."""
        declared = _declared(self.avro_schema)
        data_type = _type(declared, {}, str(declared.get("name", "")))
        if not isinstance(data_type, StructType):
            raise PrototypeError(f"the schema of Avro values must be a record, not {declared.get('type')!r}")
        corrupt_column = [StructField(CORRUPT_RECORD, StringType())] if self.on_corrupt == "keep" else []
        return StructType([*data_type.fields, *corrupt_column])

    def decoded(self, records: DataFrame, schema: StructType) -> DataFrame:
        """Decode each value, in an additional pass through Python."""
        others = [field for field in records.schema.fields if field.name != "value"]
        own = [field for field in schema.fields if field.name not in {other.name for other in others}]
        marks = [StructField(IS_CORRUPT, BooleanType())] if self.on_corrupt == "skip" else []
        emitted = StructType([*own, *others, *marks])
        work = DecodeAvro(
            avro_schema=self.avro_schema,
            skip_bytes=_REGISTRY_HEADER_BYTES if self.registry_header else 0,
            on_corrupt=self.on_corrupt,
            emitted=arrow_schema(emitted),
        )
        return records.where("value IS NOT NULL").mapInArrow(work, emitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAvro:
    avro_schema: str
    skip_bytes: int
    on_corrupt: OnCorrupt
    emitted: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from fastavro import parse_schema

        parsed = parse_schema(json.loads(self.avro_schema))
        for batch in batches:
            rows = [self._row(value, parsed, batch, place) for place, value in enumerate(batch.column("value"))]
            read = set(batch.schema.names) - {"value"}
            columns = [
                batch.column(field.name)
                if field.name in read
                else pa.array([row.get(field.name) for row in rows], field.type)
                for field in self.emitted
            ]
            yield pa.RecordBatch.from_arrays(columns, names=self.emitted.names)

    def _row(self, value: pa.Scalar, parsed: Any, batch: pa.RecordBatch, place: int) -> dict[str, Any]:
        from fastavro import schemaless_reader

        data = value.as_py()
        stream = BytesIO(data[self.skip_bytes :])
        try:
            row = schemaless_reader(stream, parsed, None)
            if stream.read(1):
                raise ValueError("there are bytes after the record")
        except Exception as unreadable:  # noqa: BLE001 - fastavro may raise anything for malformed bytes
            return self._corrupt(data, unreadable, batch, place)
        return {**_plain(row), IS_CORRUPT: False}

    def _corrupt(self, data: bytes, why: Exception, batch: pa.RecordBatch, place: int) -> dict[str, Any]:
        if self.on_corrupt == "fail":
            topic, partition, offset = (batch.column(name)[place].as_py() for name in ("topic", "partition", "offset"))
            raise SourceError(
                f"the record of {topic}-{partition} at offset {offset} is not Avro of the declared schema:"
                f" {type(why).__name__}: {why}"
            ) from why
        return {IS_CORRUPT: True, CORRUPT_RECORD: data.hex()}


def _declared(avro_schema: str) -> dict[str, Any]:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        declared = json.loads(avro_schema)
        parse_schema(declared)
    except (ValueError, SchemaParseException, UnknownType) as wrong:
        raise PrototypeError(f"the schema of Avro values cannot be read: {wrong}") from None
    return declared if isinstance(declared, dict) else {"type": declared}


def _type(avro: Any, types_by_name: dict[str, DataType | None], where: str) -> DataType:
    """Return Spark's type for an Avro type at `where`. In `types_by_name`, None marks a type that encloses this
    type.
    """
    if isinstance(avro, list):
        return _of_union([each for each in avro if each != "null"], types_by_name, where)
    if isinstance(avro, str):
        if avro in _PRIMITIVE:
            return _PRIMITIVE[avro]
        named_type = types_by_name.get(avro)
        if named_type is None:
            raise PrototypeError(f"{where} has Avro's type {avro!r}, which Spark does not support")
        return named_type
    data_type = _of_schema(avro, types_by_name, where)
    if "name" in avro:
        types_by_name[avro["name"]] = data_type
    return data_type


def _of_schema(avro: dict[str, Any], types_by_name: dict[str, DataType | None], where: str) -> DataType:
    kind, logical = avro["type"], str(avro.get("logicalType"))
    if logical == "decimal":
        return DecimalType(avro["precision"], avro.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical in _REFUSED:
        raise PrototypeError(f"{where} has Avro's logical type {logical!r}, which Spark does not support")
    match kind:
        case "record":
            types_by_name[avro["name"]] = None
            fields = avro["fields"]
            return StructType(
                [
                    StructField(each["name"], _type(each["type"], types_by_name, f"{where}.{each['name']}"))
                    for each in fields
                ]
            )
        case "array":
            return ArrayType(_type(avro["items"], types_by_name, f"{where}[]"))
        case "map":
            return MapType(StringType(), _type(avro["values"], types_by_name, f"{where}{{}}"))
        case _:
            return _type(kind, types_by_name, where)


def _of_union(members: list[Any], types_by_name: dict[str, DataType | None], where: str) -> DataType:
    if len(members) == 1:
        return _type(members[0], types_by_name, where)
    if set(map(str, members)) == {"int", "long"}:
        return LongType()
    if set(map(str, members)) == {"float", "double"}:
        return DoubleType()
    raise PrototypeError(f"{where} is a union of {', '.join(map(str, members))}, which Spark does not support")


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case UUID():
            return str(value)
        case _:
            return value
