"""Columns of any name pass through every operator, and through every format of files and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import (
    CoProcessFunction,
    DeltaSink,
    DeltaSource,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flykka.actors.machines.state.schema_evolution import quoted
from flykka.api.streams.data_stream import DataStream
from flykka.errors import StreamTypeError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(slots_per_task_manager=8),
    pytest.mark.checkpoints,
]

NAMES = ["a.b", "two words", "t`ick", "größe🐟", "select", "1st", "it's", 'say "so"', "100%", "back\\slash"]
TIME = "event.time `utc`"
QUOTED = [quoted(name) for name in NAMES]
COLUMNS = ", ".join(f"{name} int" for name in QUOTED)
KEYS = QUOTED[:3]
MINUTE = TumblingEventTimeWindows.of("1min")
LATE = OutputTag("odd `tag`, 1.2", COLUMNS)

Row = dict[str, Any]
FIRST, SECOND = ({name: 100 * row + place for place, name in enumerate(NAMES)} for row in (0, 1))
ROWS = [FIRST, FIRST, SECOND]


def columns_of(row: Row) -> Row:
    return {name: row[name] for name in NAMES}


class Number(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("how.many so`far", "bigint", default=0))
        self.list = runtime_context.get_list_state(ListStateDescriptor("größe🐟", "struct<`a.b`: int, `t``ick`: int>"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("select %", "string", "int"))

    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        self.count.update(self.count.value() + 1)
        self.list.add({"a.b": row["a.b"], "t`ick": row["t`ick"]})
        self.map.put("t`ick", row["t`ick"])
        yield {**columns_of(row), "n": self.count.value()}


class Copy(ProcessFunction):
    def process_element(self, row: Row, ctx: Any) -> Iterator[Row]:
        ctx.output(LATE, columns_of(row))
        yield columns_of(row)


class Both(CoProcessFunction):
    def process_element1(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield columns_of(row)

    def process_element2(self, row: Row, ctx: Any) -> Iterator[Row]:
        yield columns_of(row)


def first_rows(rows: Any, state: Any) -> tuple[Any, Any]:
    return rows.select(NAMES), state.set_column(3, "n.n", pa.array([1] * state.num_rows, pa.int32()))


def first_frames(rows: Any, state: Any) -> tuple[Any, Any]:
    return rows[NAMES], state.assign(**{"n.n": 1})


def left_columns(pairs: Any) -> DataStream:
    return pairs.select(*(F.col(f"left.{name}") for name in QUOTED))


def chained(rows: DataStream, _: DataStream) -> DataStream:
    """Return the rows after each stateless operator."""
    return (
        rows.select(*QUOTED, "x")
        .map(columns_of, COLUMNS)
        .flat_map(lambda row: [columns_of(row)], COLUMNS)
        .map_in_pandas(lambda parts: (part[NAMES] for part in parts), COLUMNS)
        .map_in_arrow(lambda parts: (part.select(NAMES) for part in parts), COLUMNS)
        .process(Copy(), COLUMNS)
        .with_column_renamed("t`ick", "`")
        .with_column_renamed("`", "t`ick")
        .with_column("x.`y", F.lit(1))
        .drop("x.`y")
        .filter(lambda row: row["t`ick"] < 200)
        .where(" AND ".join(f"{name} < 100" for name in QUOTED))
    )


def side_output(rows: DataStream) -> DataStream:
    copied = rows.process(Copy(), COLUMNS)
    return copied.get_side_output(LATE)


def least(name: str) -> Callable[[DataStream, DataStream], DataStream]:
    return lambda rows, _: rows.key_by("`two words`").min_by(name)


VERBS: dict[str, tuple[Callable[[DataStream, DataStream], DataStream], list[Row]]] = {
    "verbs without state": (chained, [FIRST, FIRST]),
    "side output": (lambda rows, _: side_output(rows), ROWS),
    "keyed process": (lambda rows, _: rows.key_by(*QUOTED).process(Number(), f"{COLUMNS}, n int"), ROWS),
    "connected": (lambda rows, other: rows.connect(other).process(Both(), COLUMNS), ROWS * 2),
    "drop_duplicates": (lambda rows, _: rows.drop_duplicates(NAMES), [FIRST, SECOND]),
    "drop_duplicates within": (lambda rows, _: rows.drop_duplicates(NAMES, within="1min"), [FIRST, SECOND]),
    "reduce": (lambda rows, _: rows.key_by(*KEYS).reduce(lambda one, other: one), [FIRST, SECOND]),
    "sum": (lambda rows, _: rows.key_by("x").sum(*NAMES), [{name: 2 * FIRST[name] + SECOND[name] for name in NAMES}]),
    "process_table": (
        lambda rows, _: rows.key_by(*KEYS).process_table(first_rows, state="`n.n` int", output=COLUMNS),
        ROWS,
    ),
    "with pandas": (
        lambda rows, _: rows.key_by(*KEYS).process_table(
            first_frames, state="`n.n` int", output=COLUMNS, frames="pandas"
        ),
        ROWS,
    ),
    "windows": (
        lambda rows, _: rows.key_by(*QUOTED).window(MINUTE).aggregate(F.count("*").alias("n.n")),
        [FIRST, SECOND],
    ),
    "window reduce": (
        lambda rows, _: rows.key_by(*KEYS).window(MINUTE).reduce(lambda one, other: one),
        [FIRST, SECOND],
    ),
    "interval join": (
        lambda rows, other: left_columns(rows.key_by(*KEYS).interval_join(other.key_by(*KEYS)).between("0s", "0s")),
        [FIRST, FIRST, SECOND],
    ),
    "regular join": (
        lambda rows, other: left_columns(rows.key_by(*KEYS).regular_join(other.key_by(*KEYS))),
        [FIRST, FIRST, FIRST, FIRST, SECOND],
    ),
    "co_group": (
        lambda rows, other: (
            rows.co_group(other)
            .where(*KEYS)
            .equal_to(*KEYS)
            .window(MINUTE)
            .apply(lambda left, right: left[NAMES], COLUMNS)
        ),
        ROWS,
    ),
    **{f"min_by {name}": (least(name), [FIRST, SECOND]) for name in NAMES[:3]},
}

SOME = {"verbs without state", "keyed process", "sum", "process_table"}
"""One operator for each form of generated code. The other operators generate column names in the same way."""


def stream(env: StreamExecutionEnvironment, folder: Path, uid: str) -> DataStream:
    times = [1_000_000, 2_000_000, 3_000_000]
    table = pa.Table.from_pylist(ROWS, pa.schema([(name, pa.int32()) for name in NAMES]))
    folder.mkdir(exist_ok=True)
    pq.write_table(table.append_column(TIME, pa.array(times, pa.timestamp("us", "UTC"))), folder / "rows.parquet")
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(TIME)
    return env.from_source(FileSource.parquet(str(folder)), in_order, uid=uid).with_column("x", F.lit(0))


def count_rows(rows: Iterator[Row] | list[Row]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row[name] for name in NAMES) for row in rows)


def differing_folders(spark: SparkSession, folder: Path, expected: dict[str, list[Row]]) -> list[str]:
    found = {name: spark.read.parquet(str(folder / name)).collect() for name in expected}
    return [
        name for name, rows in found.items() if count_rows([row.asDict() for row in rows]) != count_rows(expected[name])
    ]


@pytest.mark.parametrize(
    "verbs", [SOME, pytest.param(VERBS.keys() - SOME, marks=pytest.mark.long)], ids=["some", "rest"]
)
def test_every_method_accepts_columns_of_any_name(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path, verbs: set[str]
) -> None:
    rows, other = (stream(env, tmp_path / uid, uid) for uid in ("rows", "other"))
    tried = {name: verb for name, verb in VERBS.items() if name in verbs}
    for name, (apply, _) in tried.items():
        apply(rows, other).sink_to(FileSink.parquet(str(tmp_path / "out" / name)))

    env.execute("verbs")

    assert differing_folders(spark, tmp_path / "out", {name: expected for name, (_, expected) in tried.items()}) == []


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_minimum_rows_are_found_by_a_column_of_any_name(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = stream(env, tmp_path / "rows", "rows")
    least(name)(rows, rows).sink_to(FileSink.parquet(str(tmp_path / "out" / "least")))

    env.execute("least")

    assert differing_folders(spark, tmp_path / "out", {"least": [FIRST, SECOND]}) == []


FORMATS: dict[str, tuple[Callable[[str], Any], Callable[[str], Any]]] = {
    "json": (FileSink.json, lambda path: FileSource.json(path, schema=COLUMNS)),
    "csv": (
        lambda path: FileSink.csv(path, header=True),
        lambda path: FileSource.csv(path, schema=COLUMNS, header=True),
    ),
    "orc": (FileSink.orc, FileSource.orc),
    "partitions": (lambda path: FileSink.parquet(path).partition_by(*NAMES[:-1]), FileSource.parquet),
    "delta": (DeltaSink.append, DeltaSource.of_path),
    "delta partitions": (lambda path: DeltaSink.append(path).partition_by(*NAMES[:-1]), DeltaSource.of_path),
    "delta upsert": (lambda path: DeltaSink.upsert(path, keys=NAMES), DeltaSource.of_path),
}


@pytest.mark.parametrize(
    "formats",
    [("csv", "orc", "partitions", "delta partitions"), pytest.param(tuple(FORMATS), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_every_format_accepts_columns_of_any_name(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path, formats: tuple[str, ...]
) -> None:
    rows = stream(env, tmp_path / "rows", "rows").select(*QUOTED)
    with pytest.raises(StreamTypeError, match="orc files support no names with backticks, such as the column 't`ick'"):
        rows.sink_to(FileSink.orc(str(tmp_path / "orc")))
    for name in formats:
        sink, _ = FORMATS[name]
        written = rows.with_column_renamed("t`ick", "tick") if name == "orc" else rows
        written.sink_to(sink(str(tmp_path / name)))
    env.execute("write")
    for name in formats:
        _, source = FORMATS[name]
        read = env.from_source(source(str(tmp_path / name)), uid=name)
        named = read.with_column_renamed("tick", "t`ick") if name == "orc" else read
        named.sink_to(FileSink.parquet(str(tmp_path / "out" / name)))
    env.execute("read")

    expected = {name: [FIRST, SECOND] if name == "delta upsert" else ROWS for name in formats}
    assert differing_folders(spark, tmp_path / "out", expected) == []


LISTED = ", ".join(QUOTED)
QUERIES = {
    "select": (f"SELECT {LISTED} FROM t WHERE `100%` >= 0", ROWS),
    "distinct": (f"SELECT DISTINCT {LISTED} FROM t", [FIRST, SECOND]),
    "windows": (
        f"SELECT {LISTED}, count(*) AS `n.n` FROM t GROUP BY {LISTED}, window({quoted(TIME)}, '1 minute')",
        [FIRST, SECOND],
    ),
    "first rows": (
        f"""SELECT {LISTED} FROM (
            SELECT *, row_number() OVER (PARTITION BY {LISTED} ORDER BY {quoted(TIME)}) AS `row.n` FROM t
        ) WHERE `row.n` <= 1""",
        [FIRST, SECOND],
    ),
}


@pytest.mark.parametrize(
    "names", [("select", "windows"), pytest.param(tuple(QUERIES), marks=pytest.mark.long)], ids=["some", "all"]
)
def test_sql_accepts_columns_of_any_name(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    env.create_temporary_view("t", stream(env, tmp_path / "rows", "rows"))

    for name in names:
        env.sql(QUERIES[name][0]).sink_to(FileSink.parquet(str(tmp_path / "out" / name)))
    env.execute("queries")

    assert differing_folders(spark, tmp_path / "out", {name: QUERIES[name][1] for name in names}) == []
