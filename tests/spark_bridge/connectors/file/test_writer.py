"""Tests that staged files are published exactly once, whatever happens between two renames."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from pyarrow.parquet import read_table
from pyspark.sql import DataFrame, SparkSession

from flykka.actors.machines.state.operator_state import list_state, repartition
from flykka.messages.state.handles import PendingFile, StagedBatch
from flykka.messages.wire.codec import decode
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.file.sink import FileSink, FileWriter
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.rows.filesystem import FileSystem
from tests.spark_bridge.sink_contexts import CrashError, CrashingFileSystem, sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Sink:
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
        subtask: int = 3,
    ) -> FileWriter:
        return (sink or FileSink.parquet(str(self.folder))).writer(
            sink_context(
                self.spark,
                FileSink.parquet(str(self.folder)).staging_folder(JobId(job), "unused"),
                filesystem=filesystem,
                uid=uid,
                attempt_number=attempt,
                subtask=subtask,
            ),
        )

    def rows(self, *numbers: int) -> DataFrame:
        """Return a DataFrame that is written as one file per number."""
        return self.spark.createDataFrame([(number,) for number in numbers], "number long").repartition(len(numbers))

    def visible_rows(self) -> list[int]:
        return sorted(read_table(self.folder)["number"].to_pylist())

    def staged(self, suffix: str = ".parquet") -> list[Path]:
        return [path for path in (self.folder / ".flykka-staging").rglob(f"[!.]*{suffix}") if path.is_file()]


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path / "out")


def test_a_checkpoint_publishes_only_its_own_files(sink: Sink) -> None:
    writer = sink.writer()
    writer.prepare_commit(1, writer.stage(sink.rows(1, 2)).names)
    writer.prepare_commit(2, writer.stage(sink.rows(3)).names)

    writer.commit(1)
    first = sink.visible_rows()
    writer.commit(2)

    assert first == [1, 2]
    assert sink.visible_rows() == [1, 2, 3]
    assert sink.staged() == []


def test_files_of_an_aborted_checkpoint_are_published_with_the_next(sink: Sink) -> None:
    writer = sink.writer()
    writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    state = writer.prepare_commit(2, writer.stage(sink.rows(2)).names)

    writer.commit(2)

    assert [piece.checkpoint_id for piece in state if isinstance(piece, PendingFile)] == [1, 2]
    assert sink.visible_rows() == [1, 2]


@pytest.mark.parametrize(
    "survives", [0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_a_restore_completes_an_interrupted_commit(sink: Sink, survives: int) -> None:
    writer = sink.writer(filesystem=CrashingFileSystem(sink.spark, survives))
    state = writer.prepare_commit(1, writer.stage(sink.rows(1, 2, 3)).names)
    try:
        writer.commit(1)
    except CrashError:
        pass
    else:
        assert survives == 3

    sink.writer(attempt=1).restore(state)
    sink.writer(attempt=2).restore(state)

    assert sink.visible_rows() == [1, 2, 3]


def test_a_restore_discards_files_outside_its_checkpoint(sink: Sink) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    writer.prepare_commit(2, writer.stage(sink.rows(2)).names)
    writer.stage(sink.rows(3))

    sink.writer(attempt=1).restore(state)

    assert sink.visible_rows() == [1]
    assert sink.staged() == []


def test_other_files_in_the_folder_are_not_changed(sink: Sink) -> None:
    sink.rows(7).write.parquet(str(sink.folder))

    writer = sink.writer()
    writer.restore([])
    writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    writer.commit(1)

    assert sink.visible_rows() == [1, 7]


def test_a_missing_staged_file_fails_the_commit(sink: Sink) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    for path in sink.staged():
        path.unlink()

    with pytest.raises(SinkError, match="is missing: its rows would be lost"):
        sink.writer(attempt=1).restore(state)


def test_published_files_moved_away_do_not_stop_the_job(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    (published,) = writer.commit(1)
    Path(published.removeprefix("file:")).unlink()

    sink.writer(attempt=1).restore(state)

    assert sink.staged() == []
    assert "no longer exists, and is assumed to be published" in caplog.text


def test_a_job_continues_after_its_predecessors_files_were_removed(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    before = sink.writer(job="before")
    state = before.prepare_commit(1, before.stage(sink.rows(1)).names)
    (published,) = before.commit(1)
    Path(published.removeprefix("file:")).unlink()

    sink.writer(job="after").restore(state)

    assert "no longer exists, and is assumed to be published" in caplog.text


@pytest.mark.parametrize("leaves_an_empty_folder", [True, False], ids=["mount point", "nothing"])
def test_staged_files_on_an_unavailable_disk_are_not_considered_published(
    sink: Sink, leaves_an_empty_folder: bool
) -> None:
    writer = sink.writer()
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    away = sink.folder.rename(sink.folder.with_name("away"))
    if leaves_an_empty_folder:
        sink.folder.mkdir()

    with pytest.raises(SinkError, match="is its disk or share unavailable"):
        sink.writer(attempt=1).restore(state)

    if leaves_an_empty_folder:
        sink.folder.rmdir()
    away.rename(sink.folder)
    sink.writer(attempt=2).restore(state)
    assert sink.visible_rows() == [1]


def test_an_existing_target_file_is_not_replaced(sink: Sink) -> None:
    writer = sink.writer()
    pending, _ = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)
    assert isinstance(pending, PendingFile)
    in_the_way = Path(pending.target.removeprefix("file:"))
    in_the_way.write_bytes(b"somebody else's")

    with pytest.raises(SinkError, match="exists already"):
        writer.commit(1)

    assert in_the_way.read_bytes() == b"somebody else's"


def test_final_names_contain_job_operator_subtask_and_checkpoint(sink: Sink) -> None:
    writer = sink.writer()
    pending, _ = writer.prepare_commit(5, writer.stage(sink.rows(1)).names)
    assert isinstance(pending, PendingFile)

    assert fnmatch(Path(pending.target).name, "part-my_job-????????-my_sink-????????-3-5-0-*.parquet")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out-1", "out_1"),
        pytest.param("流れ", "川", marks=pytest.mark.long),
        pytest.param("a" * 99 + "1", "a" * 99 + "2", marks=pytest.mark.long),
    ],
)
def test_sinks_with_similar_uids_do_not_remove_each_others_files(sink: Sink, one: str, other: str) -> None:
    writer = sink.writer(uid=one)
    state = writer.prepare_commit(1, writer.stage(sink.rows(1)).names)

    sink.writer(uid=other).restore([])
    sink.writer(uid=one).restore(state)

    assert sink.visible_rows() == [1]


def test_jobs_with_similar_names_stage_in_separate_folders() -> None:
    sink = FileSink.parquet("out")

    assert sink.staging_folder(JobId("job-1"), "") != sink.staging_folder(JobId("job_1"), "")


def test_predecessors_staged_files_remain_until_the_successors_first_checkpoint(
    sink: Sink,
) -> None:
    before = sink.writer(job="before")
    state = before.prepare_commit(1, before.stage(sink.rows(1)).names)
    before.stage(sink.rows(9))

    after = sink.writer(job="after")
    after.restore(state)
    restored = sink.staged()
    after.prepare_commit(2, after.stage(sink.rows(2)).names)
    after.commit(2)

    assert len(restored) == 1
    assert sink.staged() == []
    assert sink.visible_rows() == [1, 2]


def test_a_job_that_failed_before_its_cleanup_cleans_up_after_restart(sink: Sink) -> None:
    before = sink.writer(job="before")
    kept = before.prepare_commit(1, ())
    before.stage(sink.rows(9))

    fails = sink.writer(job="after")
    fails.restore(kept)
    state = fails.prepare_commit(2, ())
    after = sink.writer(job="after", attempt=1)
    after.restore(state)
    after.commit(3)

    assert sink.staged() == []
    assert list(after.prepare_commit(4, ())) == list(state[:1])


@pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.long), 3])
def test_pending_files_are_published_by_any_number_of_new_subtasks(sink: Sink, parallelism: int) -> None:
    before = [sink.writer(job="before", subtask=subtask) for subtask in range(2)]
    names = [writer.stage(sink.rows(10 * number + 1, 10 * number + 2)).names for number, writer in enumerate(before)]
    prepared = [writer.prepare_commit(1, staged) for writer, staged in zip(before, names, strict=True)]
    before[0].stage(sink.rows(99))

    dealt = repartition([[list_state("pieces", pieces)] for pieces in prepared], parallelism)
    after = [sink.writer(job="after", subtask=subtask) for subtask in range(parallelism)]
    for writer, lists in zip(after, dealt, strict=True):
        writer.restore([decode(element) for each in lists for element in each.elements])
    for writer in after:
        writer.commit(2)

    assert sink.visible_rows() == [1, 2, 11, 12]
    assert sink.staged() == []
    assert list((sink.folder / ".flykka-staging").iterdir()) == []


def test_no_staging_folder_of_the_predecessor_remains(sink: Sink) -> None:
    before = sink.writer(job="before")
    state = before.prepare_commit(1, ())
    before.stage(sink.rows(9))

    after = sink.writer(job="after")
    after.restore(state)
    after.commit(2)

    assert list((sink.folder / ".flykka-staging").iterdir()) == []


def test_an_empty_batch_leaves_no_file(sink: Sink) -> None:
    staged = sink.writer().stage(sink.rows(1).where("number > 1"))

    assert (staged.rows, staged.names) == (0, ())
    assert sink.staged() == []


def test_state_of_another_sink_type_is_refused(sink: Sink) -> None:
    with pytest.raises(SinkError, match="'my sink' is a file sink, but the checkpoint contains a StagedBatch"):
        sink.writer().restore([StagedBatch(checkpoint_id=1, path="a", schema="{}")])


def test_partition_folders_are_named_by_their_values(sink: Sink) -> None:
    rows = sink.spark.createDataFrame(
        [(1, "a/b"), (2, "c: %"), (3, None), (4, "a/b")], "number long, _group string"
    ).coalesce(1)
    writer = sink.writer(sink=FileSink.csv(sink.folder, header=True).partition_by("_group"))
    state = writer.prepare_commit(1, writer.stage(rows).names)

    writer.commit(1)
    sink.writer(attempt=1).restore(state)

    read = sink.spark.read.csv(str(sink.folder), header=True, schema="number long, _group string")
    assert sorted(tuple(row) for row in read.collect()) == [(1, "a/b"), (2, "c: %"), (3, None), (4, "a/b")]
    assert len(list(sink.folder.glob("_group=*/part-my_job-*-my_sink-*-3-1-*.csv"))) == 3
    assert sink.staged(".csv") == []


@pytest.mark.parametrize("there_before", [pytest.param(False, marks=pytest.mark.long), True])
def test_existing_partition_folders_are_reused(sink: Sink, there_before: bool) -> None:
    rows = sink.rows(1, 2).selectExpr("number", "number % 2 AS odd")
    if there_before:
        sink.rows(7).selectExpr("number", "number % 2 AS odd").write.partitionBy("odd").parquet(str(sink.folder))

    writer = sink.writer(sink=FileSink.parquet(sink.folder).partition_by("odd"))
    writer.prepare_commit(1, writer.stage(rows).names)
    writer.commit(1)

    assert sink.visible_rows() == ([1, 2, 7] if there_before else [1, 2])


def test_a_file_has_at_most_the_configured_rows(sink: Sink) -> None:
    writer = sink.writer(sink=FileSink.parquet(sink.folder).rows_per_file(2))
    writer.prepare_commit(1, writer.stage(sink.rows(*range(5)).coalesce(1)).names)

    writer.commit(1)

    assert len(list(sink.folder.glob("part-*.parquet"))) == 3
    assert sink.visible_rows() == [0, 1, 2, 3, 4]


def test_a_checkpoint_writes_at_most_the_configured_number_of_files(sink: Sink) -> None:
    writer = sink.writer(sink=FileSink.json(sink.folder, compression="gzip").files_per_checkpoint(1))
    names = writer.stage(sink.rows(1, 2)).names + writer.stage(sink.rows(3)).names
    state = writer.prepare_commit(1, names)

    writer.commit(1)

    (file,) = sink.folder.glob("part-*")
    assert file.name.endswith(".json.gz")
    assert sorted(row.number for row in sink.spark.read.json(str(file)).collect()) == [1, 2, 3]
    assert sum(isinstance(piece, PendingFile) for piece in state) == 1
    assert sink.staged(".gz") == []


def test_batches_become_files_of_similar_size(sink: Sink) -> None:
    small = sink.writer(sink=FileSink.parquet(sink.folder).file_size("1MB"))
    names = small.stage(sink.rows(1, 2)).names + small.stage(sink.rows(3)).names
    small.prepare_commit(1, names)
    small.commit(1)
    of_small = len(list(sink.folder.glob("part-*")))
    rows = sink.spark.range(10, 20_010).selectExpr("id AS number", "sha2(cast(id AS string), 256) AS text")
    large = sink.writer(sink=FileSink.parquet(sink.folder).file_size("256 kb"), subtask=1)
    large.prepare_commit(1, large.stage(rows.coalesce(1)).names)
    large.commit(1)

    sizes = sorted(file.stat().st_size for file in sink.folder.glob("part-*"))[of_small:]
    assert of_small == 1
    assert len(sizes) > 2
    assert all(150_000 < size < 350_000 for size in sizes)
    assert sink.visible_rows() == [1, 2, 3, *range(10, 20_010)]


def test_a_row_limit_and_a_file_limit_can_be_combined(sink: Sink) -> None:
    rows = sink.spark.range(10_000).selectExpr("id AS number", "sha2(cast(id AS string), 256) AS text")
    writer = sink.writer(sink=FileSink.parquet(sink.folder).file_size("32kb").files_per_checkpoint(2))
    writer.prepare_commit(1, writer.stage(rows).names)
    writer.commit(1)

    assert len(list(sink.folder.glob("part-*"))) == 2
