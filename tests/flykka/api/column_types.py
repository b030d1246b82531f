"""A column of each Spark type on the types page, and the uses of such a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from flykka import (
    CoProcessFunction,
    DataStream,
    DeltaSink,
    FileSink,
    FileSource,
    ProcessFunction,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from flykka.spark_bridge.connectors.postgres.written_types import column_type_for
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.file_formats import FileFormat

MINUTE = TumblingEventTimeWindows.of("1min")

WKB = "X'0101000000000000000000F03F0000000000000040'"
VALUES: dict[str, str] = {
    "`boolean`": "id = 1",
    "`tinyint`": "cast(id as tinyint)",
    "`smallint`": "cast(id as smallint)",
    "`int`": "cast(id as int)",
    "`bigint`": "id + 1152921504606846976",
    "`float`": "cast(id / 4 as float)",
    "`double`": "id / 10d",
    "`decimal`": "cast(id + 0.001 as decimal(38, 3))",
    "`string`": "concat('ä ', id)",
    "`char`, `varchar`": "cast(concat('ä ', id) as varchar(9))",
    "`string collate`": "collate(concat('Ab', id), 'UTF8_LCASE')",
    "`binary`": "cast(concat('a', id) as binary)",
    "`date`": "date_add(date'1969-12-31', cast(id as int))",
    "`timestamp`": "timestamp'2026-01-01 00:00:00.000001' + make_dt_interval(id)",
    "`timestamp_ntz`": "timestamp_ntz'1969-12-31 23:59:59.999999' + make_dt_interval(id)",
    "`time`": "time'12:34:56'",
    "`interval day to second`": "make_dt_interval(id, 2, 3, 4.5)",
    "`interval year to month`": "make_ym_interval(id, 2)",
    "`interval`": "make_interval(id, 2, 3, 4)",
    "`variant`": "parse_json(concat('{\"a\":', id, '}'))",
    "`void`": "null",
    "`geometry`": f"st_geomfromwkb({WKB})",
    "`geography`": f"st_geogfromwkb({WKB})",
    "a user-defined type": "point",
    "`array`": "array(id, null)",
    "`map`": "map(concat('a', id), id)",
    "`struct`": "named_struct('a', id)",
    "`struct` without fields": "struct()",
    "`array<void>`": "array()",
    "`map` of `timestamp_ntz`": "map('a', timestamp_ntz'2026-01-01 00:00:00')",
    "`map` of other keys": "map(id, 'a')",
}
"""One expression per type, over a column `id` with the values 1 and 2."""


@dataclass(frozen=True)
class Use:
    """A use listed on the page: what a program does with the column `v` of a stream, by method or in SQL."""

    verbs: tuple[Callable[[DataStream], object], ...]
    queries: tuple[str, ...] = ()


def output_schema(stream: DataStream) -> StructType:
    return StructType([StructField("v", stream.schema["v"].dataType)])


class Same(ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        yield {"v": row["v"]}


class Both(CoProcessFunction):
    def process_element1(self, row: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        yield {"v": row["v"]}

    def process_element2(self, row: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        yield from ()


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        yield from ({"v": row["v"]} for row in elements)


def same_table(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, None]:
    return rows.select(["v"]), None


def state_descriptor(stream: DataStream) -> object:
    return ValueStateDescriptor("v", stream.schema["v"].dataType.simpleString())


def file_sink_use(kind: FileFormat) -> Use:
    return Use((lambda rows: getattr(FileSink, kind)("/out").check_rows(rows.select("v").flow.type.prototype),))


def file_source_use(kind: FileFormat) -> Use:
    def prototype(rows: DataStream) -> object:
        source: FileSource = getattr(FileSource, kind)("/in", schema=output_schema(rows))
        return source.prototype(rows.flow.type.prototype.sparkSession)

    return Use((prototype,))


def file_round_trip(kind: FileFormat) -> Use:
    return Use((*file_sink_use(kind).verbs, *file_source_use(kind).verbs))


def preview_use(stream: DataStream) -> None:
    with suppress(SourceError):
        stream.preview()


def postgres_sink_use(stream: DataStream) -> None:
    """Check that PostgreSQL has a column type for `v`, as a sink does that creates its table."""
    kind = stream.schema["v"].dataType
    if column_type_for(kind) is None:
        raise PrototypeError(f"there is no type for 'v' of type {kind.simpleString()}")


USES: dict[str, Use] = {
    "columns": Use(
        (
            lambda rows: rows.select("v").rebalance(),
            lambda rows: rows.side_output("id = 1"),
            lambda rows: rows.key_by("id").window(MINUTE).aggregate(F.max_by("v", "id").alias("v")),
            lambda rows: rows.key_by("id").window(MINUTE).apply(lambda frame: frame.select("v")),
            lambda rows: rows.key_by("id").interval_join(rows.key_by("id")).between("0s", "0s").select(F.col("left.v")),
            lambda rows: rows.key_by("id").regular_join(rows.key_by("id")).select(F.col("left.v")),
        ),
        ("SELECT v FROM t WHERE id = 1",),
    ),
    "keys": Use(
        (
            lambda rows: rows.key_by("v").aggregate(F.count("*").alias("n")),
            lambda rows: rows.select("v").drop_duplicates(["v"]),
            lambda rows: rows.connect(rows).key_by("v", "v"),
        ),
        (
            "SELECT v, count(*) AS n FROM t GROUP BY v",
            "SELECT DISTINCT v FROM t",
            "SELECT a.id FROM t a JOIN t b ON a.v = b.v",
            "SELECT id, v FROM newest a LEFT SEMI JOIN newest b ON a.id = b.id",
            "SELECT max(v) AS v FROM newest",
        ),
    ),
    "functions, kept rows": Use(
        (
            lambda rows: rows.map(lambda row: {"v": row["v"]}, output_schema(rows)),
            lambda rows: rows.flat_map(lambda row: [{"v": row["v"]}], output_schema(rows)),
            lambda rows: rows.filter(lambda row: True),
            lambda rows: rows.map_in_pandas(lambda frames: (frame[["v"]] for frame in frames), output_schema(rows)),
            lambda rows: rows.map_in_arrow(
                lambda batches: (batch.select(["v"]) for batch in batches), output_schema(rows)
            ),
            lambda rows: rows.process(Same(), output_schema(rows)),
            lambda rows: rows.connect(rows).process(Both(), output_schema(rows)),
            lambda rows: rows.key_by("id").process_table(
                same_table, state=output_schema(rows), output=output_schema(rows)
            ),
            lambda rows: rows.key_by("id").reduce(lambda one, other: other),
            lambda rows: rows.key_by("id").max_by("at"),
            lambda rows: rows.drop_duplicates(["id"]),
            lambda rows: rows.key_by("id").temporal_join(rows.key_by("id")).select(F.col("right.v")),
        ),
        ("SELECT id, v FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY at) AS n FROM t) WHERE n = 1",),
    ),
    "`co_group`, broadcast variables": Use(
        (
            lambda rows: rows.process(Same(), output_schema(rows)).with_broadcast_set(rows.select("v"), "all"),
            lambda rows: (
                rows.co_group(rows)
                .where("id")
                .equal_to("id")
                .window(MINUTE)
                .apply(lambda a, b: a[["v"]], output_schema(rows))
            ),
        )
    ),
    "`preview`": Use((preview_use,)),
    "functions of windows": Use(
        (lambda rows: rows.key_by("id").window(MINUTE).process(Contents(), output_schema(rows)),)
    ),
    "states": Use((state_descriptor,)),
    "running `min`, `max`": Use(
        (
            lambda rows: rows.key_by("id").aggregate(F.max("v").alias("v")),
            lambda rows: rows.key_by("id").min_by("v"),
        ),
        ("SELECT id, min(v) AS v FROM t GROUP BY id",),
    ),
    "parquet": file_round_trip("parquet"),
    "orc": file_round_trip("orc"),
    "json, written": file_sink_use("json"),
    "json, read": file_source_use("json"),
    "avro, written": file_sink_use("avro"),
    "avro, read": file_source_use("avro"),
    "csv, written": file_sink_use("csv"),
    "csv, read": file_source_use("csv"),
    "`partition_by`": Use(
        (
            lambda rows: (
                FileSink.parquet("/out").partition_by("v").check_rows(rows.select("id", "v").flow.type.prototype)
            ),
        )
    ),
    "Delta": Use((lambda rows: DeltaSink.append("/out").check_rows(rows.select("v").flow.type.prototype),)),
    "PostgreSQL": Use((postgres_sink_use,)),
}
