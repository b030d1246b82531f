"""Preview of a stream before any job: the rows that operators return for one batch, and streams without a preview."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka import (
    DataGenSource,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    OutputTag,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.preview import ROWS_READ
from flykka.datagen import sequence
from flykka.errors import ProgramError
from flykka.spark_bridge.errors import EmptySourceError

pytestmark = pytest.mark.spark

SCHEMA = "number long, at timestamp"
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps()
SECONDS = TumblingEventTimeWindows.of("1s")


def write_numbers(folder: Path, name: str, first: int, rows: int) -> None:
    """Write numbers from `first` on, a quarter of a second apart."""
    folder.mkdir(exist_ok=True)
    at = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta([250 * number for number in range(rows)], unit="ms")
    numbers = pd.DataFrame({"number": range(first, first + rows), "at": at.astype("datetime64[us, UTC]")})
    numbers.to_parquet(folder / f"{name}.parquet")


def watched_stream(env: StreamExecutionEnvironment, folder: Path) -> DataStream:
    source = FileSource.parquet(folder, schema=SCHEMA, event_time="at").monitor_continuously("100ms")
    return env.from_source(source, IN_ORDER, "numbers")


def generated_numbers(env: StreamExecutionEnvironment, rows: int) -> DataStream:
    return env.from_source(DataGenSource({"number": sequence()}, number_of_rows=rows))


def test_a_preview_shows_the_first_batch_after_all_operators(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    write_numbers(tmp_path / "in", "a", first=0, rows=8)
    write_numbers(tmp_path / "in", "b", first=100, rows=8)

    even = watched_stream(env, tmp_path / "in").where("number % 2 = 0").select("number")

    assert list(even.preview().number) == [0, 2, 4, 6]
    assert list(even.preview(2).number) == [0, 2]


def test_windows_fire_with_the_rows_of_the_batch(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    write_numbers(tmp_path / "in", "a", first=0, rows=8)

    keyed = watched_stream(env, tmp_path / "in").key_by(F.col("number") % 2)
    counted = keyed.window(SECONDS).aggregate(F.count("*").alias("rows"), F.max("number").alias("last"))
    preview = counted.preview()

    assert list(preview.columns) == counted.columns
    assert sorted(zip(preview["rows"], preview["last"], strict=True)) == [(2, 2), (2, 3), (2, 6), (2, 7)]
    assert list(keyed.preview(1).number) == [0]


def test_windows_over_all_rows_with_assigned_watermarks_have_a_preview(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_numbers(tmp_path / "in", "a", first=0, rows=8)

    timed = watched_stream(env, tmp_path / "in").assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps()
    )
    preview = timed.window_all(SECONDS).apply(lambda rows: rows.groupBy("window_end").count()).preview()

    assert sorted(preview["count"]) == [4, 4]


def test_sessions_over_all_rows_have_no_key_column(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    write_numbers(tmp_path / "in", "a", first=0, rows=8)

    sessions = watched_stream(env, tmp_path / "in").window_all(EventTimeSessionWindows.with_gap("10min"))
    counted = sessions.aggregate(F.count("*").alias("rows"))
    preview = counted.preview()

    assert list(preview.columns) == counted.columns == ["window_start", "window_end", "rows"]
    assert list(preview["rows"]) == [8]


def test_a_preview_changes_neither_the_program_nor_any_file(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    stream = generated_numbers(env, 5)
    stream.sink_to(FileSink.parquet(tmp_path / "out"))
    before = env.program.transformations

    preview = stream.preview()
    after, written = env.program.transformations, (tmp_path / "out").exists()
    env.execute("after a preview")

    assert after == before
    assert not written
    assert list(preview.number) == sorted(pd.read_parquet(tmp_path / "out").number)


def test_a_preview_reads_only_the_first_rows_of_a_batch(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(
        DataGenSource({"number": sequence()}, number_of_rows=3 * ROWS_READ, rows_per_batch=3 * ROWS_READ)
    )

    counted = stream.transform(lambda rows: rows.agg(F.count("*").alias("rows")), per_batch=True)

    assert list(counted.preview().rows) == [ROWS_READ]


def test_a_union_shows_rows_of_each_side(env: StreamExecutionEnvironment) -> None:
    united = generated_numbers(env, 2).union(generated_numbers(env, 3))

    assert sorted(united.preview().number) == [0, 0, 1, 1, 2]


def test_a_preview_waits_for_a_slow_source(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(DataGenSource({"number": sequence()}, number_of_rows=None, rows_per_second=100.0))

    assert stream.preview(1).number[0] == 0


class Opened(RichFunction):
    """Records the calls of all its copies in one list."""

    calls: list[str] = []  # noqa: RUF012 - of all copies together

    def open(self, context: RuntimeContext) -> None:
        self.calls.append("open")

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.calls.append("call")
        return rows

    def close(self) -> None:
        self.calls.append("close")


def test_a_preview_opens_and_closes_a_rich_function(env: StreamExecutionEnvironment) -> None:
    stream = generated_numbers(env, 2).transform(Opened())
    Opened.calls.clear()

    stream.preview()

    assert Opened.calls == ["open", "call", "close"]


@pytest.mark.parametrize("there", [True, False], ids=["empty", "missing"])
def test_a_watched_folder_without_files_is_named_in_the_error(
    env: StreamExecutionEnvironment, tmp_path: Path, *, there: bool
) -> None:
    folder = tmp_path / "in"
    if there:
        folder.mkdir()
    stream = watched_stream(env, folder)

    with pytest.raises(EmptySourceError, match=rf"numbers \(.* reads parquet .*{folder}, which contains no"):
        stream.preview()


def test_a_preview_of_late_rows_is_refused_with_the_operator_name(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_numbers(tmp_path / "in", "a", first=0, rows=8)
    late = OutputTag("late")
    windows = watched_stream(env, tmp_path / "in").key_by("number").window(SECONDS).side_output_late_data(late)
    stream = windows.aggregate(F.count("*").alias("rows")).get_side_output(late)

    with pytest.raises(ProgramError, match=r"get_side_output\(late\).* cannot be previewed"):
        stream.preview()


@pytest.mark.parametrize("rows", [0, -1, 2.5])
def test_the_number_of_preview_rows_must_be_a_positive_integer(env: StreamExecutionEnvironment, rows: int) -> None:
    with pytest.raises(ProgramError, match="number of rows to preview"):
        generated_numbers(env, 1).preview(rows)
