"""Tests that a paused and replaced process publishes nothing, and that its successor finds the files of the
checkpoints.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.parquet import read_table
from pyspark.sql import DataFrame, SparkSession

from flykka.actors.checkpoint_storage.staged_paths import batch_folder
from flykka.actors.errors import OwnershipLostError
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.state.handles import PendingFile
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink
from flykka.spark_bridge.connectors.job_owners import JobOwners
from flykka.spark_bridge.connectors.job_sinks import take_over_staged
from flykka.spark_bridge.connectors.staging import StagingOwner
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.program.sink_writer import SinkWriter
from flykka.spark_bridge.rows.filesystem import FileSystem
from tests.spark_bridge.harness import Harness
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = "file:/out/.flykka-staging/job-12345678"
SUBTASK = "sink-12345678-0-of-2"


class Owners:
    """Successive processes of one job with a file sink and a batch function."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.filesystem = FileSystem(spark)
        self.output = folder / "out"
        self.checkpoints = folder / "checkpoints"
        self.calls: list[tuple[int, list[int]]] = []

    @property
    def files(self) -> FileSink:
        return FileSink.parquet(str(self.output))

    @property
    def function(self) -> ForeachBatchSink:
        return ForeachBatchSink(lambda rows, checkpoint_id: self.calls.append((checkpoint_id, sorted_numbers(rows))))

    def staging(self, sink: Sink, job: str = "job") -> str:
        folder = sink.staging_folder(JobId(job), str(self.checkpoints))
        assert folder is not None
        return folder

    def writer(self, sink: Sink, number: int, job: str = "job", attempt: int = 0) -> SinkWriter[DataFrame]:
        context = sink_context(
            self.spark, self.staging(sink, job), attempt_number=attempt, owner_number=number, parallelism=4
        )
        return sink.writer(context)

    def take_over(self, sink: Sink, number: int, job: str = "job") -> None:
        root = self.filesystem.qualified(self.staging(sink, job))
        StagingOwner(filesystem=self.filesystem, root=root, number=number).take_over()

    def rows(self, *numbers: int) -> DataFrame:
        return self.spark.createDataFrame([(number,) for number in numbers], "number long").coalesce(1)

    def visible_rows(self) -> list[int]:
        if not list(self.output.glob("part-*")):
            return []
        return sorted(read_table(self.output)["number"].to_pylist())

    def staged(self) -> list[Path]:
        return [path for path in (self.output / ".flykka-staging").rglob("*.parquet") if path.is_file()]


def sorted_numbers(rows: DataFrame) -> list[int]:
    return sorted(row.number for row in rows.collect())


@pytest.fixture
def owners(spark: SparkSession, tmp_path: Path) -> Owners:
    return Owners(spark, tmp_path)


def test_a_woken_predecessor_publishes_no_file(owners: Owners) -> None:
    paused = owners.writer(owners.files, 1)
    kept = paused.prepare_commit(4, paused.stage(owners.rows(4)).names)
    paused.prepare_commit(5, paused.stage(owners.rows(5)).names)

    owners.take_over(owners.files, 2)
    with pytest.raises(OwnershipLostError, match=r"this process is no longer the owner of .* number 2 has continued"):
        paused.commit(5)
    before = owners.visible_rows()
    owners.writer(owners.files, 2).restore(kept)

    assert before == []
    assert owners.visible_rows() == [4]
    assert owners.staged() == []


def test_rows_staged_by_a_replaced_predecessor_stay_unpublished(owners: Owners) -> None:
    paused = owners.writer(owners.files, 1)
    paused.prepare_commit(4, paused.stage(owners.rows(4)).names)
    owners.take_over(owners.files, 2)

    paused.prepare_commit(5, paused.stage(owners.rows(5)).names)
    with pytest.raises(OwnershipLostError):
        paused.commit(5)

    assert owners.visible_rows() == []


def test_a_restarted_predecessor_deletes_no_file_of_its_successor(owners: Owners) -> None:
    paused = owners.writer(owners.files, 1)
    kept = paused.prepare_commit(4, paused.stage(owners.rows(4)).names)
    owners.take_over(owners.files, 2)
    successor = owners.writer(owners.files, 2)
    successor.restore(kept)
    successor.prepare_commit(5, successor.stage(owners.rows(5)).names)

    with pytest.raises(OwnershipLostError):
        owners.writer(owners.files, 1, attempt=1).restore(kept)
    root = owners.filesystem.qualified(owners.staging(owners.files))
    StagingOwner(filesystem=owners.filesystem, root=root, number=1).delete()
    successor.commit(5)

    assert owners.visible_rows() == [4, 5]


def test_a_predecessor_replaced_before_its_rename_finds_no_file(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = owners.writer(owners.files, 1)
    paused.prepare_commit(5, paused.stage(owners.rows(5)).names)
    rename = FileSystem.rename

    def replaced(self: FileSystem, source: str, target: str) -> bool:
        monkeypatch.setattr(FileSystem, "rename", rename)
        owners.take_over(owners.files, 2)
        return self.rename(source, target)

    monkeypatch.setattr(FileSystem, "rename", replaced)
    with pytest.raises(OwnershipLostError):
        paused.commit(5)

    assert owners.visible_rows() == []


def test_the_third_owner_publishes_files_staged_by_the_first(owners: Owners) -> None:
    first = owners.writer(owners.files, 1)
    kept = first.prepare_commit(4, first.stage(owners.rows(4)).names)
    owners.take_over(owners.files, 2)
    second = owners.writer(owners.files, 2)
    second.stage(owners.rows(9))

    owners.take_over(owners.files, 3)
    third = owners.writer(owners.files, 3)
    third.restore(kept)

    assert owners.visible_rows() == [4]
    assert owners.staged() == []


def test_an_owner_takes_over_rows_staged_before_owners_were_numbered(owners: Owners) -> None:
    older = owners.writer(owners.files, 1)
    pending, _ = older.prepare_commit(4, older.stage(owners.rows(4)).names)
    assert isinstance(pending, PendingFile)
    root = Path(owners.staging(owners.files))
    (subtask,) = (root / "1").iterdir()
    subtask.rename(root / subtask.name)
    kept = [replace(pending, staged=pending.staged.replace("/1/", "/"))]

    owners.take_over(owners.files, 2)
    owners.writer(owners.files, 2).restore(kept)

    assert owners.visible_rows() == [4]
    assert owners.staged() == []


def test_a_successor_job_finds_moved_files_and_leaves_no_folder(owners: Owners) -> None:
    before = owners.writer(owners.files, 1, job="before")
    kept = before.prepare_commit(4, before.stage(owners.rows(4)).names)
    before.prepare_commit(5, before.stage(owners.rows(5)).names)

    owners.take_over(owners.files, 2, job="before")
    after = owners.writer(owners.files, 2, job="after")
    after.restore(kept)
    with pytest.raises(OwnershipLostError):
        before.commit(5)
    after.prepare_commit(6, after.stage(owners.rows(6)).names)
    after.commit(6)

    assert owners.visible_rows() == [4, 6]
    assert list((owners.output / ".flykka-staging").iterdir()) == [Path(owners.staging(owners.files, job="after"))]


def test_the_function_of_a_paused_predecessor_is_not_called(owners: Owners) -> None:
    sink = owners.function
    paused = owners.writer(sink, 1)
    kept = paused.prepare_commit(4, paused.stage(owners.rows(4)).names)
    paused.prepare_commit(5, paused.stage(owners.rows(5)).names)

    owners.take_over(sink, 2)
    with pytest.raises(OwnershipLostError):
        paused.commit(5)
    owners.writer(sink, 2).restore(kept)

    assert owners.calls == [(4, [4])]


def test_an_earlier_owner_cannot_take_over(owners: Owners) -> None:
    writer = owners.writer(owners.files, 2)
    writer.stage(owners.rows(1))

    with pytest.raises(OwnershipLostError):
        owners.take_over(owners.files, 1)

    assert len(owners.staged()) == 1


def test_a_partly_moved_store_is_completed(owners: Owners) -> None:
    root = Path(owners.staging(owners.files))
    for place in (root / "1" / SUBTASK / "0-1", root / "3" / "from-1" / SUBTASK / "0-1"):
        place.mkdir(parents=True)
    (root / "1" / SUBTASK / "0-1" / "b.parquet").write_text("b")
    (root / "3" / "from-1" / SUBTASK / "0-1" / "a.parquet").write_text("a")

    owners.take_over(owners.files, 3)

    assert [path.name for path in root.iterdir()] == ["3"]
    moved = root / "3" / "from-1" / SUBTASK / "0-1"
    assert sorted(path.name for path in moved.iterdir()) == ["a.parquet", "b.parquet"]


def test_a_job_takes_over_the_folders_of_all_its_sinks(harness: Harness, owners: Owners) -> None:
    sinks: tuple[Sink, ...] = (owners.files, owners.function)
    for sink in sinks:
        owners.writer(sink, 1).stage(owners.rows(1))
    graph = JobGraph(
        job_id=JobId("job"),
        name="job",
        vertices=tuple(harness.vertex(f"v{number}", SinkCode(sink=sink)) for number, sink in enumerate(sinks)),
        checkpointing=CheckpointingSettings(directory=str(owners.checkpoints)),
        heartbeat_interval_ms=1000,
        heartbeat_timeout_ms=9000,
    )

    take_over_staged(graph, harness.registry, owners.filesystem, graph.job_id, 2)

    for sink in sinks:
        assert [path.name for path in Path(owners.staging(sink)).iterdir()] == ["2"]


@pytest.mark.parametrize(
    ("recorded", "moved"),
    [
        (f"{ROOT}/1/{SUBTASK}/0-1/part", f"{ROOT}/3/from-1/{SUBTASK}/0-1/part"),
        (f"{ROOT}/2/from-1/{SUBTASK}/0-1/part", f"{ROOT}/3/from-1/{SUBTASK}/0-1/part"),
        (f"{ROOT}/{SUBTASK}/0-1/day=1/part", f"{ROOT}/3/from-0/{SUBTASK}/0-1/day=1/part"),
        (f"{ROOT}/2/{SUBTASK}", f"{ROOT}/3/from-2/{SUBTASK}"),
        (f"{ROOT}/3/{SUBTASK}/0-1/part", f"{ROOT}/3/{SUBTASK}/0-1/part"),
        ("file:/elsewhere/part", "file:/elsewhere/part"),
    ],
)
def test_an_owner_finds_files_by_the_recorded_path_after_they_moved(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, recorded: str, moved: str
) -> None:
    monkeypatch.setattr(FileSystem, "exists", lambda self, path: True)

    assert StagingOwner(filesystem=FileSystem(spark), root=ROOT, number=3).find(recorded) == moved


def test_an_owner_finds_files_moved_by_a_job_without_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    root = f"file:{tmp_path}/job-12345678"
    staged = Path(f"{tmp_path}/job-12345678/1/{SUBTASK}/0-1/part")
    staged.parent.mkdir(parents=True)
    staged.touch()
    StagingOwner(filesystem=FileSystem(spark), root=root, number=2).take_over()

    path = StagingOwner(filesystem=FileSystem(spark), root=root, number=3).find(f"file:{staged}")

    assert path == f"{root}/2/from-1/{SUBTASK}/0-1/part"


@pytest.mark.parametrize("owner", ["", "/7", "/7/from-3"])
def test_the_batch_folder_is_above_the_folders_of_partitions(owner: str) -> None:
    batch = f"{ROOT}{owner}/{SUBTASK}/0-1"

    assert batch_folder(f"{batch}/day=1/part-0.parquet") == batch


@pytest.mark.parametrize(
    "job", [pytest.param("before", id="last run"), pytest.param("after", id="same job", marks=pytest.mark.long)]
)
def test_a_new_owner_process_takes_over_staged_files(harness: Harness, owners: Owners, job: str) -> None:
    graph = JobGraph(
        job_id=JobId("after"),
        name="job",
        vertices=(harness.vertex("v", SinkCode(sink=owners.files)),),
        checkpointing=CheckpointingSettings(directory=str(owners.checkpoints)),
        heartbeat_interval_ms=1000,
        heartbeat_timeout_ms=9000,
    )
    first, second = JobOwners(harness.registry), JobOwners(harness.registry)
    first.acquire(graph, owners.filesystem, print)
    paused = owners.writer(owners.files, first.number_of(graph.job_id), job=job)
    paused.prepare_commit(5, paused.stage(owners.rows(5)).names)
    first.close()

    second.acquire(graph, owners.filesystem, print)
    second.take_over(graph, owners.filesystem, JobId("before"))
    with pytest.raises(OwnershipLostError):
        paused.commit(5)
    second.close()

    assert owners.visible_rows() == []
    assert len(owners.staged()) == 1
