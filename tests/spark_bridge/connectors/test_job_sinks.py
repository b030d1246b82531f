"""Tests that sinks are checked before a job runs: unwritable sinks are refused, and the check leaves no files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.program.sink import Sink
from tests.spark_bridge.harness import Harness

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def check(harness: Harness, *sinks: Sink, parallelism: int = 1) -> None:
    vertices = tuple(
        harness.vertex(f"v{number}", SinkCode(sink=sink), parallelism=parallelism) for number, sink in enumerate(sinks)
    )
    settings = CheckpointingSettings(directory=str(harness.folder / "checkpoints"))
    harness.plane.check(
        JobGraph(
            job_id=JobId("job"),
            name="job",
            vertices=vertices,
            checkpointing=settings,
            heartbeat_interval_ms=1000,
            heartbeat_timeout_ms=9000,
        )
    )


def refusal(harness: Harness, *sinks: Sink, parallelism: int = 1) -> str:
    with pytest.raises(SinkError) as refused:
        check(harness, *sinks, parallelism=parallelism)
    return str(refused.value)


def test_a_path_that_is_a_file_is_refused(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("mine")

    assert refusal(harness, FileSink.parquet(file)) == (
        f"operator 'v0-sink-0': {file} is a file: pass the path of a folder, into which a FileSink writes"
    )
    assert file.read_text() == "mine"


def test_a_path_below_an_unwritable_folder_is_refused(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    text = refusal(harness, FileSink.parquet(file / "in" / "out"))

    assert text.startswith(f"operator 'v0-sink-0': {file}/in/out cannot be written to: ")
    assert file.read_text() == "mine"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o500)
    yield folder
    folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused(harness: Harness, read_only: Path) -> None:
    text = refusal(harness, FileSink.parquet(read_only))

    assert text.startswith(f"operator 'v0-sink-0': {read_only} cannot be written to: ")


def test_an_address_of_an_unknown_file_system_is_refused(harness: Harness) -> None:
    text = refusal(harness, FileSink.parquet("nowhere://out"))

    assert re.fullmatch(r"operator 'v0-sink-0', parquet nowhere://out: No FileSystem for scheme .*nowhere.*", text)


def test_checking_sinks_leaves_no_file(harness: Harness, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "old.parquet").write_text("whatever")

    check(harness, FileSink.parquet(mine), FileSink.parquet(tmp_path / "new"))

    assert [path.name for path in mine.iterdir()] == ["old.parquet"]
    assert not (tmp_path / "new").exists()


def test_two_sinks_may_share_a_folder_that_is_readable_as_one(harness: Harness, tmp_path: Path) -> None:
    out = tmp_path / "out"

    check(harness, FileSink.parquet(out), FileSink.parquet(f"file:{out}", compression="zstd"))


@pytest.mark.parametrize(
    ("other", "format_name"),
    [(FileSink.json, "json"), (lambda path: FileSink.parquet(path).partition_by("day"), "parquet partitioned by day")],
)
def test_two_sinks_cannot_share_a_folder_that_is_not_readable_as_one(
    harness: Harness, tmp_path: Path, other: Callable[[Path], FileSink], format_name: str
) -> None:
    text = refusal(harness, FileSink.parquet(tmp_path), other(tmp_path))

    assert text == (
        f"operator 'v0-sink-0' and operator 'v1-sink-0' both write to file:{tmp_path}, as parquet and as {format_name}:"
        " readers expect one of them; give each a path of its own"
    )


def test_a_function_of_batches_runs_in_one_subtask(harness: Harness) -> None:
    text = refusal(harness, ForeachBatchSink(print), parallelism=2)

    assert text == "operator 'v0-sink-0' runs in 1 subtask at most, not in 2: foreach_batch print"
