"""`flykka savepoint`: the description of a savepoint, and its compatibility with an app."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
from flykka.actors.checkpoint_storage.storage import CheckpointStorage, initialize_savepoint
from flykka.actors.machines.job_graph.operator_ids import operator_id
from flykka.actors.machines.state.handles import operator_metadata
from flykka.cli.main import main
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata, SnapshotType, TaskStateEntry
from flykka.messages.graph.job_graph import OperatorKind, OperatorRef
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    KeyGroupRange,
    OperatorListState,
    OperatorSubtaskState,
    StateSchema,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId

WINDOWS = operator_id("totals")


def write_savepoint(
    directory: Path,
    *operators: OperatorMetadata,
    windows: OperatorId = WINDOWS,
    with_state: bool = True,
    lists: tuple[OperatorListState, ...] = (),
) -> Path:
    """Write a savepoint of a job with one stateful operator: list state, and keyed state in a file of six bytes or
    without a file.
    """
    folder = initialize_savepoint(str(directory), "savepoint-orders-1")
    state = Path(folder, "state")
    state.write_bytes(b"a row.")
    keyed = OperatorSubtaskState(
        operator_id=windows,
        key_groups=KeyGroupRange(start=0, end=127),
        exclusive=(ExclusiveStateHandle(path=f"file:{state}", size_bytes=6),) if with_state else (),
        operator_state=lists,
    )
    taken = CompletedCheckpoint(
        job_id=JobId("orders-id"),
        checkpoint_id=7,
        timestamp_ms=1_700_000_000_000,
        duration_ms=250,
        task_states=(
            TaskStateEntry(
                vertex_id=JobVertexId("v"),
                subtask=0,
                parallelism=1,
                max_parallelism=128,
                state=TaskStateSnapshot(operators=(keyed,)),
            ),
        ),
        snapshot_type=SnapshotType.SAVEPOINT,
        job_name="orders",
        operators=operators,
    )
    return Path(CheckpointStorage(folder).write_metadata(taken, folder))


def window_operator() -> OperatorMetadata:
    return OperatorMetadata(
        operator_id=WINDOWS,
        ref=OperatorRef(uid="totals", fingerprint="window"),
        name="aggregate(sum(amount))",
        kind=OperatorKind.WINDOW_AGGREGATE,
        parallelism=1,
        max_parallelism=128,
        state_schema=StateSchema(keys="shop string", columns="sum bigint", windows="size=60000ms"),
    )


def test_a_savepoint_is_described_with_its_job_and_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_savepoint(tmp_path, window_operator())

    code = main(["savepoint", "inspect", str(path)])

    output = capsys.readouterr().out
    assert code == 0
    assert "savepoint 7 of job 'orders' (orders-id)" in output
    assert "taken 2023-11-14 22:13:20 UTC in 250 ms, 6 B of state" in output
    assert "totals  window aggregate  1 (up to 128)   6 B  keyed" in output
    assert "totals: keys (shop string), state of each window (sum bigint), size=60000ms" in output
    assert "totals: 128 key groups in 1 file" in output


def test_an_operator_without_state_yet_has_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_savepoint(tmp_path, window_operator(), with_state=False)

    main(["savepoint", "inspect", str(path)])

    output = capsys.readouterr().out
    assert "totals  window aggregate  1 (up to 128)     -  none" in output
    assert "key groups" not in output


def test_the_savepoint_is_printed_completely_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_savepoint(tmp_path, window_operator())

    code = main(["savepoint", "inspect", str(path), "--json"])

    output = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (output["type"], output["job_name"], output["checkpoint_id"], output["missing"]) == (
        "SAVEPOINT",
        "orders",
        7,
        None,
    )
    [operator] = output["operators"]
    assert (operator["uid"], operator["key_groups"], operator["state_bytes"]) == ("totals", 128, 6)
    assert operator["schema"] == {
        "keys": "shop string",
        "columns": "sum bigint",
        "windows": "size=60000ms",
        "merged_by": [],
        "operator_state": [],
    }


def test_an_operator_without_a_name_is_printed_with_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["savepoint", "inspect", str(write_savepoint(tmp_path))])

    assert f"id {WINDOWS}" in capsys.readouterr().out


def test_splits_of_an_unimported_connector_do_not_prevent_the_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unread = OperatorListState(name="unread splits", elements=(b"of a connector",))
    path = write_savepoint(tmp_path, window_operator(), lists=(unread,))

    code = main(["savepoint", "inspect", str(path)])

    assert code == 0
    assert "list unread splits (SPLIT_DISTRIBUTE): 1" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_missing_files_of_a_savepoint_are_listed_with_the_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_savepoint(tmp_path, window_operator())
    (path / "state").unlink()

    code = main(["savepoint", "inspect", str(path)])

    output = capsys.readouterr()
    assert code == 1
    assert "savepoint 7 of job 'orders'" in output.out
    assert output.err == (
        f"flykka savepoint: {path}/_metadata refers to state in file:{path}/state, which is missing\n"
    )


@pytest.mark.parametrize("command", [["inspect"], ["check"]])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:40], r"_metadata: \d+ bytes were written, but it has \d+"),
        (lambda data: data[:8] + b"\x00\x63" + data[10:], "a newer flykka wrote it: it has format version 99"),
        (lambda data: b"PAR1" + data, "not a file of flykka"),
        (None, "it is neither the folder of a checkpoint"),
    ],
    ids=["truncated", "newer", "another file", "empty"],
)
def test_a_file_that_is_not_a_savepoint_is_reported_and_nothing_starts(
    command: list[str],
    damage: Callable[[bytes], bytes] | None,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_savepoint(tmp_path, window_operator())
    metadata = path / "_metadata"
    if damage is not None:
        metadata.write_bytes(damage(metadata.read_bytes()))
    else:
        metadata.unlink()
    (tmp_path / "app.py").write_text("raise SystemExit('started')")
    app = [str(tmp_path / "app.py")] if command == ["check"] else []

    code = main(["savepoint", *command, str(path), *app])

    error = capsys.readouterr().err
    assert code == 1
    assert error.startswith(f"flykka savepoint: '{path}' ")
    assert re.search(said, error)


def test_a_missing_app_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["savepoint", "check", str(tmp_path), str(tmp_path / "gone.py")])

    assert left.value.code == 2
    assert "there is no file" in capsys.readouterr().err


APP = """
import sys
from pyspark.sql import functions as F
from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy

uid, size, *more = sys.argv[1:]
with StreamExecutionEnvironment.get_execution_environment() as env:
    source = FileSource.json("{folder}/in", schema="at timestamp, shop string, amount bigint")
    source = source.monitor_continuously("1s")
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    rows = env.from_source(source, watermarks, "orders", uid="orders").key_by("shop", *more)
    totals = rows.window(TumblingEventTimeWindows.of(size)).aggregate(F.sum("amount").alias("total")).uid(uid)
    totals.sink_to(FileSink.parquet("{folder}/out")).uid("output")
    env.execute("orders")
    print("executed")
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir(exist_ok=True)
    path = tmp_path / "app.py"
    path.write_text(APP.format(folder=tmp_path))
    return path


@pytest.fixture
def app_savepoint(spark: SparkSession, tmp_path: Path) -> Path:
    """A savepoint of the app's job, whose window operator has the uid `totals` and windows of one hour."""
    from pyspark.sql import functions as F

    (tmp_path / "in").mkdir(exist_ok=True)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        source = FileSource.json(
            str(tmp_path / "in"), schema="at timestamp, shop string, amount bigint"
        ).monitor_continuously("1s")
        watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
        rows = env.from_source(source, watermarks, "orders", uid="orders").key_by("shop")
        totals = rows.window(TumblingEventTimeWindows.of("1h")).aggregate(F.sum("amount").alias("total")).uid("totals")
        totals.sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("output")
        operators = operator_metadata(env.get_job_graph())
    windows = next(each.operator_id for each in operators if each.ref.uid == "totals")
    return write_savepoint(tmp_path / "savepoints", *operators, windows=windows)


@pytest.mark.spark
def test_a_compatible_app_is_accepted_without_being_started(
    app_savepoint: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["savepoint", "check", str(app_savepoint), str(app), "totals", "1h"])

    output = capsys.readouterr()
    assert code == 0
    assert f"job 'orders' can start from {app_savepoint}: 3 matched\n" in output.out
    assert "executed" not in output.out + output.err
    assert [line.split()[:2] for line in output.out.splitlines()[1:4]] == [
        ["matched", "orders"],
        ["matched", "totals"],
        ["matched", "output"],
    ]


@pytest.mark.spark
def test_a_changed_uid_is_suggested_and_its_state_may_be_dropped(
    app_savepoint: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = main(["savepoint", "check", str(app_savepoint), str(app), "sums", "1h", "--json"])
    output = json.loads(capsys.readouterr().out)
    allowed = main(["savepoint", "check", str(app_savepoint), str(app), "-n", "--", "sums", "1h"])

    assert (refused, allowed) == (1, 0)
    assert output["can_start"] is False
    [renamed] = [operator for operator in output["operators"] if operator["match"] == "renamed"]
    assert (renamed["uid"], renamed["former_uid"]) == ("sums", "totals")


@pytest.mark.spark
def test_changed_windows_and_keys_are_incompatible_and_printed_with_both_values(
    app_savepoint: Path, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["savepoint", "check", str(app_savepoint), str(app), "totals", "2h", "amount"])

    output = capsys.readouterr().out
    assert code == 1
    assert "keys: was `shop string`, is `shop string, amount bigint`" in output
    assert "windows: was `size=3600000ms, slide=3600000ms, offset=0ms`, is `size=7200000ms" in output
    assert "job 'orders' cannot start" in output
