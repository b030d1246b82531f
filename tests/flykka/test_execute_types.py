"""Values of all types, with nulls and in two time zones, are unchanged after every kind of function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    KeyedContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

BIG = 2**60 + 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("at", TIME),
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("ok", pa.bool_()),
        ("ids", pa.list_(pa.int64())),
        ("st", pa.struct([("n", pa.int64()), ("at", TIME)])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("d", pa.decimal128(38, 3)),
        ("t", TIME),
        ("ts", pa.list_(TIME)),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
    ]
)
DDL = (
    "k string, at timestamp, id bigint, small smallint, ok boolean, ids array<bigint>, st struct<n: bigint, at:"
    " timestamp>, m map<string, bigint>, d decimal(38, 3), t timestamp, ts array<timestamp>, day date, x double,"
    " text string, raw binary"
)
# The second half past one in the night in which New York's summer time ends.
TWICE = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
NULLS: dict[str, Any] = dict.fromkeys(SCHEMA.names)
FULL = {
    "k": "a",
    "at": EPOCH - timedelta(microseconds=500),
    "id": BIG,
    "small": -1,
    "ok": True,
    "ids": [BIG, None],
    "st": {"n": BIG, "at": TWICE},
    "m": [("big", BIG), ("null", None)],
    "d": Decimal("12345678901234567890.125"),
    "t": datetime(1, 1, 1, tzinfo=UTC),
    "ts": [TWICE, None, TWICE - timedelta(hours=1)],
    "day": date(9999, 12, 31),
    "x": 0.1,
    "text": "",
    "raw": b"\xff",
}
HALF = {**NULLS, "k": "c", "at": TWICE, "id": -BIG, "ids": [], "st": {"n": None, "at": None}, "t": TWICE, "m": []}
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
ROWS = [FULL, {**NULLS, "k": "b", "at": EPOCH}, HALF, {**NULLS, "k": "d", "at": TWICE - timedelta(hours=1), "t": LAST}]


def check_time_zone(value: Any) -> Any:
    """Return a value of a row, after a check that its times are in UTC."""
    if isinstance(value, datetime):
        assert value.utcoffset() == timedelta(0), value
    elif isinstance(value, dict):
        check_time_zone([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            check_time_zone(each)
    return value


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._rows = runtime_context.get_list_state(ListStateDescriptor("rows", f"struct<{DDL}>"))

    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        assert ctx.timestamp() == (row["at"] - EPOCH) // timedelta(milliseconds=1)
        self._rows.add({**row, "m": dict(row["m"]) if row["m"] is not None else None})
        yield from map(check_time_zone, self._rows.get())


class Elements(ProcessWindowFunction):
    """Emits the rows of a window, after a check that they belong to it."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        window = context.window()
        for row in elements:
            assert window.start <= (row["at"] - EPOCH) / timedelta(milliseconds=1) < window.end
            yield check_time_zone(row)


def as_they_are(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from frames


def remember_in_pandas(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Emit the rows of the previous batch, and store those of the current batch."""
    return state[state["seen"].notna()].drop(columns="seen"), rows.assign(seen=1)


def remember_in_arrow(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, None]:
    check_time_zone(rows.to_pylist())
    return rows, None


def left_side(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    assert str(left["window_start"].dtype) == "datetime64[us, UTC]"
    return left.drop(columns=["window_start", "window_end"])


WINDOWS = TumblingEventTimeWindows.of("10s")
WAYS: dict[str, Callable[[DataStream], DataStream]] = {
    "functions of rows": lambda rows: (
        rows.map(check_time_zone, DDL)
        .flat_map(lambda row: [check_time_zone(row)], DDL)
        .map_in_pandas(as_they_are, DDL)
        .filter(lambda row: check_time_zone(row) is not None)
    ),
    "process": lambda rows: rows.key_by("k").process(Remember(), DDL),
    "window": lambda rows: rows.key_by("k").window(WINDOWS).process(Elements(), DDL),
    "process_table": lambda rows: rows.key_by("k").process_table(remember_in_arrow, state="n bigint", output=DDL),
    "co_group": lambda rows: rows.co_group(rows).where("k").equal_to("k").window(WINDOWS).apply(left_side, DDL),
    "drop_duplicates": lambda rows: rows.drop_duplicates(["k"]),
}


@pytest.fixture(params=[pytest.param("UTC", marks=pytest.mark.long), "America/New_York"])
def env(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[StreamExecutionEnvironment]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    try:
        with StreamExecutionEnvironment.get_execution_environment(slots_per_task_manager=8) as made:
            yield made.disable_batch_coalescing()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def stream(env: StreamExecutionEnvironment, folder: Path, *, files: int = 1) -> DataStream:
    """Return the rows once per file; each file is a batch."""
    (folder / "in").mkdir()
    for number in range(files):
        pq.write_table(pa.Table.from_pylist(ROWS, SCHEMA), folder / "in" / f"{number}.parquet")
    none_is_late = WatermarkStrategy.for_bounded_out_of_orderness("40000d").with_timestamp_column("at")
    return env.from_source(FileSource.parquet(str(folder / "in")).files_per_batch(1), none_is_late, "rows", uid="rows")


def read_parquet_rows(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).cast(SCHEMA).to_pylist()
    return sorted(rows, key=lambda row: str(row["k"]))


@pytest.mark.parametrize(
    "names",
    [("functions of rows", "process", "window"), pytest.param(tuple(WAYS), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_rows_are_unchanged_after_every_function(
    env: StreamExecutionEnvironment, tmp_path: Path, names: tuple[str, ...]
) -> None:
    rows = stream(env, tmp_path)
    for name in names:
        WAYS[name](rows).sink_to(FileSink.parquet(str(tmp_path / name))).uid(name)

    env.execute("types")

    assert {name: read_parquet_rows(tmp_path / name) for name in names} == dict.fromkeys(names, ROWS)


def test_rows_are_unchanged_in_the_state_of_frames(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    keyed = stream(env, tmp_path, files=2).key_by("k")
    state = DDL.replace("k string", "seen int")
    remembered = keyed.process_table(remember_in_pandas, state=state, output=DDL, frames="pandas")
    remembered.sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")

    env.execute("state")

    assert read_parquet_rows(tmp_path / "out") == ROWS


def test_rows_are_unchanged_in_a_preview(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    preview = stream(env, tmp_path).preview()

    assert pa.Table.from_pandas(preview, SCHEMA, preserve_index=False).to_pylist() == ROWS
