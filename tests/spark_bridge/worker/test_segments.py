"""Tests that segments contain the newest row of each key and find it, although several keys share positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.core import url_to_fs
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkFiles

from flykka.actors.checkpoint_storage.file_digests import sealed
from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError
from flykka.messages.state.handles import FileDigest
from flykka.spark_bridge.worker import segment_file
from flykka.spark_bridge.worker.process_batch import KeyedBatch, look_up
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION, merged, newest
from flykka.spark_bridge.worker.segments import SavedRows, SaveSegments, SegmentFolder
from tests.spark_bridge.worker.tables import SCHEMA, STATE, Key, key_columns, key_of, segment, state_rows
from tests.syncs import watched_syncs

pytestmark = pytest.mark.slow

KEYS: st.SearchStrategy[Key] = st.tuples(st.none() | st.integers(0, 7), st.sampled_from("ab"))
TOTALS = st.dictionaries(KEYS, st.none() | st.integers(0, 100), min_size=1)


def values_after(versions: Sequence[dict[Key, int | None]]) -> dict[Key, int | None]:
    return {key: total for version in versions for key, total in version.items()}


def totals(tables: Sequence[pa.Table]) -> dict[Key, int | None]:
    """Return the rows of tables, checking that each key occurs once, sorted by position."""
    listed = [row for table in tables for row in table.to_pylist()]
    keys = [key_of(row) for row in listed]
    assert len(set(keys)) == len(keys)
    positions = [row[POSITION] for row in listed]
    assert positions == sorted(positions)
    return {key: None if row[IS_DELETED] else row["total"] for key, row in zip(keys, listed, strict=True)}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes runs three rows long, so that a segment has several runs."""
    monkeypatch.setattr(segment_file, "RUN_ROWS", 3)


@given(versions=st.lists(TOTALS, min_size=1, max_size=4))
@pytest.mark.slow
def test_a_merge_keeps_the_newest_row_of_each_key(versions: list[dict[Key, int | None]]) -> None:
    with TemporaryDirectory() as folder:
        segments = [
            segment(Path(folder, str(number)), [newest(state_rows(version, number))])
            for number, version in enumerate(versions)
        ]

        kept, without_deleted = list(merged(segments)), list(merged(segments, drops_deleted=True))

    assert totals(kept) == values_after(versions)
    assert totals(without_deleted) == {key: total for key, total in values_after(versions).items() if total is not None}


@given(versions=st.lists(TOTALS, min_size=1, max_size=4))
def test_rows_in_any_order_are_ranked_by_version(versions: list[dict[Key, int | None]]) -> None:
    newest_first = [state_rows(version, number) for number, version in enumerate(versions)][::-1]

    assert totals([newest(pa.concat_tables(newest_first))]) == values_after(versions)


@given(versions=st.lists(TOTALS, max_size=4), wanted=st.lists(KEYS, min_size=1))
def test_each_key_of_a_batch_is_found_with_its_newest_state(
    versions: list[dict[Key, int | None]], wanted: list[Key]
) -> None:
    batch = KeyedBatch(key_columns(wanted))
    with TemporaryDirectory() as folder:
        segments = [
            segment(Path(folder, str(number)), [newest(state_rows(version, number))])
            for number, version in enumerate(versions)
        ]

        rows = look_up(reversed(segments), batch.keys, STATE)

    keys = [key_of(row) for row in batch.keys.to_pylist()]
    assert sorted(keys, key=repr) == sorted(set(wanted), key=repr)
    assert rows.column("total").to_pylist() == [values_after(versions).get(key) for key in keys]


@given(wanted=st.lists(KEYS, min_size=1))
def test_rows_of_a_key_are_adjacent_in_arrival_order(wanted: list[Key]) -> None:
    numbered = key_columns(wanted).append_column("number", pa.array(range(len(wanted))))

    batch = KeyedBatch(numbered)

    parts = [
        batch.rows.slice(start, end - start).to_pylist()
        for start, end in zip(batch.starts, [*batch.starts[1:], len(wanted)], strict=True)
    ]
    assert [{key_of(row) for row in part} for part in parts] == [{key_of(row)} for row in batch.keys.to_pylist()]
    assert all([row["number"] for row in part] == sorted(row["number"] for row in part) for part in parts)


def test_nan_is_a_key_and_a_struct_may_be_one() -> None:
    keys = {
        POSITION: [0, 0, 0, 0],
        "__key_0": [float("nan"), 1.0, float("nan"), 1.0],
        "__key_1": [{"a": 1}, {"a": 2}, {"a": 1}, {"a": 2}],
    }

    assert KeyedBatch(pa.table(keys)).keys.num_rows == 2


def test_an_empty_segment_writes_no_file(tmp_path: Path) -> None:
    assert segment(tmp_path / "empty", [SCHEMA.empty_table()]) == ()
    assert not list(tmp_path.iterdir())


def test_a_partly_written_segment_is_not_visible(tmp_path: Path) -> None:
    wrong = state_rows({(1, "a"): 1}, 1).drop_columns([VERSION])

    with pytest.raises((pa.ArrowInvalid, ValueError)):
        segment(tmp_path / "half", [wrong])

    assert not list(tmp_path.iterdir())


def save_segment(folder: Path, monkeypatch: pytest.MonkeyPatch, within: str | None) -> tuple[str, FileDigest]:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(folder))
    segments = SegmentFolder(name="state")
    segments.write("a", SCHEMA, [newest(state_rows({(1, "a"): 1, (2, "b"): 2}, 1))])
    address = f"{folder}/job/shared/a-1"
    work = SaveSegments(folder=segments, saved=((address, ("a",)),), schema=SCHEMA, within=within)
    (batch,) = work(iter([pa.record_batch({"id": [0]})]))
    (row,) = batch.to_pylist()
    assert row["rows"] == 2
    return address, FileDigest(name=row["name"], size_bytes=row["size_bytes"], digest=row["digest"])


def test_a_saved_file_is_synced_before_its_folders_and_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched_syncs() as syncs:
        address, file = save_segment(tmp_path, monkeypatch, within=f"{tmp_path}/job")

    assert syncs.paths == [f"{address}/{file.name}", address, f"{tmp_path}/job/shared", f"{tmp_path}/job"]
    assert file == sealed(f"{address}/{file.name}", file.name, sync=False)


def test_a_saved_file_is_not_synced_if_syncing_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched_syncs() as syncs:
        save_segment(tmp_path, monkeypatch, within=None)

    assert syncs.paths == []


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_no_row_of_a_damaged_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    address, file = save_segment(tmp_path, monkeypatch, within=None)
    data = bytearray(Path(address, file.name).read_bytes())
    place, address = data.index(b"PAR1") + 20, f"{scheme}{address}"
    filesystem, folder = url_to_fs(address)
    filesystem.makedirs(folder, exist_ok=True)
    filesystem.pipe_file(f"{folder}/{file.name}", bytes(data))
    rows = SavedRows(address=address, files=(file,))
    assert sum(table.num_rows for table in rows.read(SCHEMA)) == 2

    data[place] ^= 1
    filesystem.pipe_file(f"{folder}/{file.name}", bytes(data))
    with pytest.raises(CheckpointFormatError, match=f"{folder}/{file.name} is damaged"):
        next(rows.read(SCHEMA))
    filesystem.rm_file(f"{folder}/{file.name}")
    with pytest.raises(CheckpointStateMissingError, match="is missing"):
        next(rows.read(SCHEMA))


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_rows_below_a_path_with_brackets_are_read_or_reported_missing(tmp_path: Path, scheme: str) -> None:
    for name in ("app1", "app[1]", "empty[1]"):
        address = f"{scheme}{tmp_path}/{name}"
        filesystem, folder = url_to_fs(address)
        filesystem.makedirs(folder, exist_ok=True)
        if not name.startswith("empty"):
            with filesystem.open(f"{folder}/rows.parquet", "wb") as file:
                pq.write_table(pa.table({POSITION: [1], "name": [name]}), file)
    saved = SavedRows(address=f"{scheme}{tmp_path}/app[1]", rows=1)

    [read] = saved.read(pa.schema([("name", pa.string())]))

    assert read.to_pylist() == [{"name": "app[1]"}]
    with pytest.raises(CheckpointFormatError, match="1 rows were written, but it has 0"):
        list(replace(saved, address=f"{scheme}{tmp_path}/empty[1]").read(read.schema))


def test_saved_rows_are_read_with_the_columns_of_another_schema(tmp_path: Path) -> None:
    saved = pa.table(
        {POSITION: [1, 5], "kept": pa.array([7, None], pa.int32()), "dropped": ["a", "b"], "sum": [2**62, None]}
    )
    pq.write_table(saved, tmp_path / "rows.parquet")
    schema = pa.schema(
        [
            (POSITION, pa.int64()),
            ("first", pa.string()),
            ("second", pa.int64()),
            ("own", pa.int64()),
            ("sum", pa.decimal128(38, 0)),
        ]
    )
    moved = {"first": None, "second": "kept"}

    [read] = SavedRows(address=str(tmp_path), between=(0, 4), stored_columns=moved).read(schema)

    assert read.to_pylist() == [{POSITION: 1, "first": None, "second": 7, "own": None, "sum": Decimal(2**62)}]
