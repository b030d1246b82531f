"""Staged files are published exactly once, whatever happens between two renames."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.messages.ids import JobId
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.filesystem import FileSystem
from flykka.spark_bridge.sinks.file_sink import FileSink
from flykka.spark_bridge.sinks.file_writer import FileWriter
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class CrashError(Exception):
    """The process is gone."""


class CrashingFileSystem(FileSystem):
    """Dies right before the rename with this number, from 0."""

    def __init__(self, session: SparkSession, survives: int) -> None:
        super().__init__(session)
        self._left = survives

    def rename(self, source: str, target: str) -> bool:
        if self._left == 0:
            raise CrashError
        self._left -= 1
        return super().rename(source, target)


class Sink:
    """A folder, and writers of one subtask that write to it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def writer(
        self,
        attempt: int = 0,
        filesystem: FileSystem | None = None,
        uid: str = "my sink",
        job: str = "job",
        sink: FileSink | None = None,
    ) -> FileWriter:
        return FileWriter(
            sink or FileSink.parquet(str(self.folder)),
            sink_context(
                self.spark,
                FileSink.parquet(str(self.folder)).staging_folder(JobId(job), "unused"),
                filesystem=filesystem,
                uid=uid,
                attempt_number=attempt,
            ),
        )

    def rows(self, *numbers: int) -> DataFrame:
        """One file for each number."""
        return self.spark.createDataFrame([(number,) for number in numbers], "number long").repartition(len(numbers))

    def seen(self) -> list[int]:
        """What a reader of the folder sees."""
        return sorted(row.number for row in self.spark.read.parquet(str(self.folder)).collect())

    def staged(self) -> list[Path]:
        return [path for path in (self.folder / ".flykka-staging").rglob("*.parquet") if path.is_file()]


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path / "out")


def test_a_checkpoint_publishes_what_it_holds_and_no_later_one(sink: Sink) -> None:
    writer = sink.writer()
    writer.prepare_commit(1, writer.stage(sink.rows(1, 2)).names)
    writer.prepare_commit(2, writer.stage(sink.rows(3)).names)

    writer.commit(1)
    first = sink.seen()
    writer.commit(2)

    assert first == [1, 2]
    assert sink.seen() == [1, 2, 3]
    assert sink.staged() == []


def test_what_an_aborted_checkpoint_staged_is_published_with_the_next(sink: Sink) -> None:
    writer = sink.writer()
    writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    state = writer.prepare_commit(2, writer.stage(sink.rows(2)).names)

    writer.commit(2)

    assert [file.checkpoint_id for file in state.pending] == [1, 2]
    assert sink.seen() == [1, 2]


@pytest.mark.parametrize("survives", [0, 1, 2, 3])
def test_a_restore_completes_a_commit_that_was_interrupted(sink: Sink, survives: int) -> None:
    writer = sink.writer(filesystem=CrashingFileSystem(sink.spark, survives))
    state = writer.prepare_commit(1, writer.stage(sink.rows(1, 2, 3)).names)
    try:
        writer.commit(1)
    except CrashError:
        pass
    else:
        assert survives == 3

    sink.writer(attempt=1).restore([state])
    sink.writer(attempt=2).restore([state])

    assert sink.seen() == [1, 2, 3]


def test_a_restore_discards_what_its_checkpoint_does_not_hold(sink: Sink) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    writer.prepare_commit(2, writer.stage(sink.rows(2)).names)
    writer.stage(sink.rows(3))

    sink.writer(attempt=1).restore([state])

    assert sink.seen() == [1]
    assert sink.staged() == []


def test_what_lay_in_the_folder_before_is_left_alone(sink: Sink) -> None:
    sink.rows(7).write.parquet(str(sink.folder))

    writer = sink.writer()
    writer.restore([])
    writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    writer.commit(1)

    assert sink.seen() == [1, 7]


def test_a_staged_file_that_is_gone_is_no_success(sink: Sink) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    for path in sink.staged():
        path.unlink()

    with pytest.raises(SinkError, match="is gone: the output would lack its rows"):
        sink.writer(attempt=1).restore([state])


def test_a_file_in_the_way_is_not_replaced(sink: Sink) -> None:
    writer = sink.writer()
    (pending,) = writer.prepare_commit(1, writer.stage(sink.rows(1)).names).pending
    in_the_way = Path(pending.target.removeprefix("file:"))
    in_the_way.write_bytes(b"somebody else's")

    with pytest.raises(SinkError, match="is there already"):
        writer.commit(1)

    assert in_the_way.read_bytes() == b"somebody else's"


def test_final_names_tell_operator_subtask_and_checkpoint(sink: Sink) -> None:
    writer = sink.writer()
    (pending,) = writer.prepare_commit(5, writer.stage(sink.rows(1)).names).pending

    assert fnmatch(Path(pending.target).name, "part-my_sink-????????-3-5-0-*.parquet")


@pytest.mark.parametrize(("one", "other"), [("out-1", "out_1"), ("流れ", "川"), ("a" * 99 + "1", "a" * 99 + "2")])
def test_sinks_whose_uids_read_alike_do_not_discard_each_others_files(sink: Sink, one: str, other: str) -> None:
    writer = sink.writer(uid=one)
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)

    sink.writer(uid=other).restore([])
    sink.writer(uid=one).restore([state])

    assert sink.seen() == [1]


def test_jobs_whose_names_read_alike_stage_apart() -> None:
    sink = FileSink.parquet("out")

    assert sink.staging_folder(JobId("job-1"), "") != sink.staging_folder(JobId("job_1"), "")
