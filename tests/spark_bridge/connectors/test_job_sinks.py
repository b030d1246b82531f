"""Before a job runs, its sinks are looked at: what cannot be written is refused, and nothing is left of the look."""

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
from tests.spark_bridge.laboratory import Laboratory

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def check(laboratory: Laboratory, *sinks: Sink, parallelism: int = 1) -> None:
    """Look at a job with a vertex for each sink."""
    vertices = tuple(
        laboratory.vertex(f"v{number}", SinkCode(sink=sink), parallelism=parallelism)
        for number, sink in enumerate(sinks)
    )
    settings = CheckpointingSettings(directory=str(laboratory.folder / "checkpoints"))
    laboratory.plane.check(
        JobGraph(
            job_id=JobId("job"),
            name="job",
            vertices=vertices,
            checkpointing=settings,
            heartbeat_interval_ms=1000,
            heartbeat_timeout_ms=9000,
        )
    )


def refusal(laboratory: Laboratory, *sinks: Sink, parallelism: int = 1) -> str:
    with pytest.raises(SinkError) as refused:
        check(laboratory, *sinks, parallelism=parallelism)
    return str(refused.value)


def test_a_path_that_is_a_file_is_refused(laboratory: Laboratory, tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("mine")

    assert refusal(laboratory, FileSink.parquet(file)) == (
        f"operator 'v0-sink-0': {file} is a file; a FileSink writes into a folder: give the path of one"
    )
    assert file.read_text() == "mine"


def test_a_path_in_which_no_folder_can_be_made_is_refused(laboratory: Laboratory, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    text = refusal(laboratory, FileSink.parquet(file / "in" / "out"))

    assert text.startswith(f"operator 'v0-sink-0': {file}/in/out cannot be written to: ")
    assert file.read_text() == "mine"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o500)
    yield folder
    folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(laboratory: Laboratory, read_only: Path) -> None:
    text = refusal(laboratory, FileSink.parquet(read_only))

    assert text.startswith(f"operator 'v0-sink-0': {read_only} cannot be written to: ")


def test_an_unknown_address_is_refused(laboratory: Laboratory) -> None:
    text = refusal(laboratory, FileSink.parquet("nowhere://out"))

    assert re.fullmatch(r"operator 'v0-sink-0', parquet nowhere://out: No FileSystem for scheme .*nowhere.*", text)


def test_a_look_leaves_nothing_behind(laboratory: Laboratory, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "old.parquet").write_text("whatever")

    check(laboratory, FileSink.parquet(mine), FileSink.parquet(tmp_path / "new"))

    assert [path.name for path in mine.iterdir()] == ["old.parquet"]
    assert not (tmp_path / "new").exists()


def test_two_sinks_may_write_to_one_folder_what_can_be_read_as_one(laboratory: Laboratory, tmp_path: Path) -> None:
    out = tmp_path / "out"

    check(laboratory, FileSink.parquet(out), FileSink.parquet(f"file:{out}", compression="zstd"))


@pytest.mark.parametrize(
    ("other", "told"),
    [(FileSink.json, "json"), (lambda path: FileSink.parquet(path).partition_by("day"), "parquet partitioned by day")],
)
def test_two_sinks_must_not_write_to_one_folder_what_cannot_be_read_as_one(
    laboratory: Laboratory, tmp_path: Path, other: Callable[[Path], FileSink], told: str
) -> None:
    text = refusal(laboratory, FileSink.parquet(tmp_path), other(tmp_path))

    assert text == (
        f"operator 'v0-sink-0' and operator 'v1-sink-0' both write to file:{tmp_path}, as parquet and as {told}:"
        " readers expect one of them; give each a path of its own"
    )


def test_a_function_of_batches_runs_in_one_subtask(laboratory: Laboratory) -> None:
    text = refusal(laboratory, ForeachBatchSink(print), parallelism=2)

    assert text == "operator 'v0-sink-0' runs in 1 subtask at most, not in 2: foreach_batch print"
