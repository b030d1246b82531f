"""Columns of all types that a use supports, according to the types page, have the values of a Spark batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import GeographyType, GeometryType, LongType, StructField, StructType
from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

from flykka import (
    DataStream,
    DeltaSink,
    DeltaSource,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flykka.messages.control.job import CheckpointCompleted
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS, FileFormat
from tests.flykka.api.column_types import VALUES
from tests.flykka.api.test_types_page import CELLS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(slots_per_task_manager=8),
]

MINUTE = TumblingEventTimeWindows.of("1min")
FORMATS: tuple[FileFormat, ...] = ("parquet", "orc", "avro", "json", "csv")
ROWS = 4
"""The number of rows. The last row has only nulls, and the two before it are equal."""

Row = dict[str, Any]


def file_columns(kind: FileFormat) -> list[str]:
    if kind in ("parquet", "orc"):
        return columns_of_use(kind)
    return [name for name in columns_of_use(f"{kind}, written") if name in columns_of_use(f"{kind}, read")]


@cache
def columns_of_use(use: str) -> list[str]:
    return [f"c{place}" for place, kind in enumerate(VALUES) if CELLS[kind][use] == "yes"]


def frame(spark: SparkSession) -> DataFrame:
    schema = StructType([StructField("n", LongType()), StructField("point", ExamplePointUDT())])
    points = [(n, None if n == ROWS - 1 else ExamplePoint(float(min(n, 1)), 2.0)) for n in range(ROWS)]
    rows = spark.createDataFrame(points, schema).selectExpr("*", f"if(n = {ROWS - 1}, null, least(n, 1) + 1) AS id")
    values = [f"if(id IS NULL, null, {VALUES[kind]}) AS c{place}" for place, kind in enumerate(VALUES)]
    wanted = [value for value in values if value.rsplit(" ", 1)[1] in columns_of_use("columns")]
    return rows.selectExpr("n", "timestamp_seconds(n) AS at", *wanted).coalesce(1)


def text(rows: DataFrame | DataStream, name: str) -> Column:
    column, kind = F.col(name), rows.schema[name].dataType
    shapes = (GeometryType, GeographyType)
    return (F.hex(F.st_asbinary(column)) if isinstance(kind, shapes) else column.cast("string")).alias(name)


def as_texts(rows: Any) -> Any:
    return rows.select(*(text(rows, name) for name in rows.columns))


def text_rows(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, as_texts(rows).collect()), key=str)


def output_schema(rows: DataStream, use: str) -> StructType:
    return StructType([rows.schema["n"], *(rows.schema[name] for name in columns_of_use(use))])


class Remember(KeyedProcessFunction):
    def __init__(self, kinds: dict[str, str]) -> None:
        self._kinds = kinds

    def open(self, runtime_context: Any) -> None:
        self._states = {
            name: runtime_context.get_state(ValueStateDescriptor(name, kind)) for name, kind in self._kinds.items()
        }

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        for name, state in self._states.items():
            value = row[name]
            # Maps arrive as pairs.
            state.update(dict(value) if self._kinds[name].startswith("map") and value is not None else value)
        yield {"n": row["n"], **{name: state.value() for name, state in self._states.items()}}


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Row]:
        yield from (
            {"n": row["n"], **{name: row[name] for name in columns_of_use("functions of windows")}} for row in elements
        )


def stored_in_state(rows: DataStream) -> DataStream:
    kinds = {name: rows.schema[name].dataType.simpleString() for name in columns_of_use("states")}
    return rows.key_by("n").process(Remember(kinds), output_schema(rows, "states"))


def in_tables(rows: DataStream) -> DataStream:
    """Return the rows unchanged, from a function that also has the columns as state."""
    kept, state = output_schema(rows, FUNCTIONS), StructType([rows.schema[name] for name in columns_of_use(FUNCTIONS)])

    def emit(table: Any, state: Any) -> tuple[Any, Any]:
        return table, state

    return (
        rows.select("n", *columns_of_use(FUNCTIONS))
        .key_by("n")
        .process_table(
            emit, state=StructType([StructField(f"s_{field.name}", field.dataType) for field in state]), output=kept
        )
    )


def mapped(rows: DataStream) -> DataStream:
    """Return the rows unchanged, after several functions in a chain."""
    return (
        rows.map(lambda row: row, rows.schema)
        .flat_map(lambda row: [row], rows.schema)
        .filter(lambda row: True)
        .map_in_pandas(lambda frames: frames, rows.schema)
        .map_in_arrow(lambda batches: batches, rows.schema)
    )


def grouped(rows: DataStream) -> DataStream:
    both = rows.co_group(rows).where("n").equal_to("n").window(MINUTE)
    columns = ["n", *columns_of_use(GROUPS)]
    return both.apply(lambda left, right: left[columns], output_schema(rows, GROUPS))


FUNCTIONS, GROUPS = "functions, kept rows", "`co_group`, broadcast variables"
WAYS: dict[str, tuple[str, Callable[[DataStream], DataStream]]] = {
    "rebalance": ("columns", lambda rows: rows.rebalance().where("true")),
    "window": ("columns", lambda rows: rows.key_by("n").window(MINUTE).apply(lambda frame: frame)),
    "interval_join": (
        "columns",
        lambda rows: rows.key_by("n").interval_join(rows.key_by("n")).between("0s", "0s").select("left.*"),
    ),
    "regular_join": ("columns", lambda rows: rows.key_by("n").regular_join(rows.key_by("n")).select("right.*")),
    "functions of rows": (FUNCTIONS, mapped),
    "process_table": (FUNCTIONS, in_tables),
    "reduce": (FUNCTIONS, lambda rows: rows.key_by("n").reduce(lambda one, other: other)),
    "drop_duplicates": (FUNCTIONS, lambda rows: rows.drop_duplicates(["n"])),
    "temporal_join": (
        FUNCTIONS,
        lambda rows: (
            rows.key_by("n").temporal_join(rows.key_by("n")).select(*(F.col(f"right.{name}") for name in rows.columns))
        ),
    ),
    "co_group": (GROUPS, grouped),
    "window function": (
        "functions of windows",
        lambda rows: rows.key_by("n").window(MINUTE).process(Contents(), output_schema(rows, "functions of windows")),
    ),
    "state": ("states", stored_in_state),
}


def stream(env: StreamExecutionEnvironment, rows: DataFrame) -> DataStream:
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    return env.from_dataframe(rows, timed, uid="rows")


@pytest.mark.long  # docs/types.md is tested in each run.
def test_values_pass_unchanged_through_all_uses_that_support_their_types(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    batch = frame(spark)
    rows = stream(env, batch)
    for name, (use, way) in WAYS.items():
        made = way(rows.select("n", "at", *columns_of_use(use))).select("n", *columns_of_use(use))
        as_texts(made).sink_to(FileSink.parquet(str(tmp_path / name))).uid(name)

    assert len(rows.select("n", *columns_of_use("`preview`")).preview()) == ROWS
    env.execute("types")

    wrong = {
        name
        for name, (use, _) in WAYS.items()
        if text_rows(spark.read.parquet(str(tmp_path / name))) != text_rows(batch.select("n", *columns_of_use(use)))
    }
    assert wrong == set()


@pytest.mark.long
def test_keys_and_extremes_equal_those_of_a_batch(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    batch = frame(spark)
    extremes = [
        function(name).alias(f"{name}_{number}")
        for name in columns_of_use("running `min`, `max`")
        for number, function in enumerate((F.min, F.max))
    ]
    count, keys = F.count("*").alias("count"), columns_of_use("keys")
    rows = stream(env, batch)
    grouped, greatest = rows.key_by(*keys).aggregate(count), rows.key_by(F.lit(1).alias("one")).aggregate(*extremes)
    distinct = rows.select(*keys).drop_duplicates(keys)
    for name, made in {"grouped": grouped, "greatest": greatest, "distinct": distinct}.items():
        as_texts(made).sink_to(FileSink.parquet(str(tmp_path / name))).uid(name)

    env.execute("keys")

    def rows_of_folder(name: str) -> list[tuple[Any, ...]]:
        return text_rows(spark.read.parquet(str(tmp_path / name)))

    assert rows_of_folder("grouped") == text_rows(batch.groupBy(*keys).agg(count))
    assert rows_of_folder("greatest") == text_rows(batch.groupBy(F.lit(1).alias("one")).agg(*extremes))
    assert rows_of_folder("distinct") == text_rows(batch.select(*keys).distinct())


@pytest.mark.parametrize(
    "formats", [("avro", "csv"), pytest.param(FORMATS, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_values_survive_a_round_trip_through_files_and_tables(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path, formats: tuple[FileFormat, ...]
) -> None:
    batch = frame(spark)
    rows = stream(env, batch)
    for name in formats:
        sink: FileSink = getattr(FileSink, name)(str(tmp_path / name))
        rows.select("n", *file_columns(name)).sink_to(sink).uid(name)
    parts = columns_of_use("`partition_by`")
    rows.select("n", *parts).sink_to(FileSink.parquet(str(tmp_path / "parted")).partition_by(*parts)).uid("parted")
    rows.select("n", *columns_of_use("Delta")).sink_to(DeltaSink.append(str(tmp_path / "delta"))).uid("delta")
    env.execute("write")

    wanted = {name: batch.select("n", *file_columns(name)) for name in formats}
    for name in formats:
        source: FileSource = getattr(FileSource, name)(str(tmp_path / name), schema=wanted[name].schema)
        read = as_texts(env.from_source(source, uid=name))
        read.sink_to(FileSink.parquet(str(tmp_path / "read" / name))).uid(f"read {name}")
    table = as_texts(env.from_source(DeltaSource.of_path(str(tmp_path / "delta")), uid="delta"))
    table.sink_to(FileSink.parquet(str(tmp_path / "read" / "delta"))).uid("read delta")
    env.execute("read")

    for name, rows_of_format in wanted.items():
        kind = SPARK_FORMATS[name].data_source
        rows_of_format.write.format(kind).save(str(tmp_path / "by Spark" / name))
        reader = spark.read.format(kind).schema(rows_of_format.schema)
        expected = text_rows(reader.load(str(tmp_path / "by Spark" / name)))
        assert text_rows(reader.load(str(tmp_path / name))) == expected, name
        assert text_rows(spark.read.parquet(str(tmp_path / "read" / name))) == expected, name
        assert expected == text_rows(rows_of_format) or name in ("json", "csv")
    assert text_rows(spark.read.parquet(str(tmp_path / "read" / "delta"))) == text_rows(
        batch.select("n", *columns_of_use("Delta"))
    )
    parted = batch.select("n", *parts)
    assert text_rows(spark.read.schema(parted.schema).parquet(str(tmp_path / "parted"))) == text_rows(parted)


@pytest.mark.long
def test_state_rows_are_the_same_after_a_restore_from_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    batch = frame(spark).select("n", "at", *columns_of_use(FUNCTIONS))
    checkpoint = None
    for number in range(2):
        batch.write.parquet(str(tmp_path / "in"), mode="append")
        with StreamExecutionEnvironment.get_execution_environment(slots_per_task_manager=4) as env:
            env.set_checkpoint_dir(str(tmp_path / "checkpoints")).enable_checkpointing("200ms")
            env.from_checkpoint(checkpoint)
            source = FileSource.parquet(str(tmp_path / "in"), schema=batch.schema).monitor_continuously(
                "1h", until=None
            )
            rows = env.from_source(source, uid="in")
            kept = rows.key_by("n").reduce(lambda one, other: one).uid("reduce")
            joined = rows.key_by("n").regular_join(rows.key_by("n")).select("left.*").uid("join")
            for name, made in {"kept": kept, "joined": joined}.items():
                as_texts(made).sink_to(FileSink.parquet(str(tmp_path / f"{name} {number}"))).uid(name)
            checkpoint = stop_when_published(env, [tmp_path / f"{name} {number}" for name in ("kept", "joined")])

    assert text_rows(spark.read.parquet(str(tmp_path / "kept 1"))) == text_rows(batch)
    # Each row has matched both rows of its key; one of them is from the first job.
    assert text_rows(spark.read.parquet(str(tmp_path / "joined 1"))) == sorted(text_rows(batch) * 3, key=str)


def stop_when_published(env: StreamExecutionEnvironment, folders: list[Path]) -> str:
    published = threading.Event()

    def look(said: object) -> None:
        if isinstance(said, CheckpointCompleted) and all(any(folder.glob("*.parquet")) for folder in folders):
            published.set()

    client = env.execute_async("kept")
    client.add_listener(look)
    published.wait(timeout=60)
    assert published.is_set(), client.exception()
    savepoint = client.stop()
    client.wait(timeout=60)
    return savepoint
