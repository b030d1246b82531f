"""Tests that a sink publishes every row once if its storage is unavailable for a while, and requests a restart
meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow.parquet import read_table
from pyspark.sql import DataFrame, SparkSession

from benchmarks.recovery.outage import Outage
from flykka.messages.wire.failure import suppresses_restarts
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.rows.filesystem import FileSystem
from tests.spark_bridge.connectors.delta.attempts import rows_of_table
from tests.spark_bridge.sink_contexts import sink_context

if TYPE_CHECKING:
    from flykka.spark_bridge.program.sink_writer import SinkWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _lengths(quick: int) -> pytest.MarkDecorator:
    """Parametrise the lengths of outages, counted in operations; only one length is quick. The longest outage never
    ends.
    """
    every = pytest.param((1, 2, 3, 5, 100), marks=pytest.mark.long)
    return pytest.mark.parametrize("lengths", [(quick,), every], ids=["one", "every"])


class Storage:
    """A folder that can be unavailable. During an outage a file replaces the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._outage: Outage | None = None
        self._spare = folder.with_name("spare")

    def keep(self) -> None:
        shutil.copytree(self.folder, self._spare)

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._spare, self.folder)

    def leave(self) -> None:
        self._outage = Outage(self.folder)

    def come_back(self) -> None:
        if self._outage is not None:
            self._outage.end()
            self._outage = None


class FlickeringFileSystem(FileSystem):
    """Operates on a storage system that is unavailable during some operations, counted from the last call of `plan`."""

    def __init__(self, session: SparkSession, storage: Storage) -> None:
        super().__init__(session)
        self._storage = storage
        self.plan(range(0))

    def plan(self, away: range) -> None:
        self._away = away
        self.operations = 0

    def local(self, path: str) -> str | None:
        if self._away and self.operations == self._away.start:
            self._storage.leave()
        if self._away and self.operations == self._away.stop:
            self._storage.come_back()
        self.operations += 1
        return super().local(path)


@dataclass
class Given:
    """Records the rows that a function received, by checkpoint."""

    by_checkpoint: dict[int, set[int]] = field(default_factory=dict)

    def __call__(self, rows: DataFrame, checkpoint_id: int) -> None:
        self.by_checkpoint[checkpoint_id] = {row.id for row in rows.collect()}

    def __deepcopy__(self, memo: object) -> Given:
        """Return the object itself, because copies of a writer call the same function."""
        return self


@dataclass
class Case:
    """A sink that stages its rows in a storage system, and the rows that readers see."""

    sink: Sink
    storage: Storage
    seen: Callable[[], list[int]]
    forget: Callable[[], object] = lambda: None

    def context(self, spark: SparkSession, attempt: int, filesystem: FileSystem | None = None) -> SinkContext:
        folder = self.sink.bound(spark).staging_folder(JobId("job"), str(self.storage.folder))
        return sink_context(spark, folder, filesystem=filesystem, attempt_number=attempt, subtask=0, parallelism=1)

    def writer(self, spark: SparkSession, attempt: int, filesystem: FileSystem | None = None) -> SinkWriter[DataFrame]:
        return self.sink.bound(spark).writer(self.context(spark, attempt, filesystem))


def published_in(folder: Path) -> list[int]:
    files = [file for file in folder.glob("*.parquet") if not file.name.startswith(".")]
    return sorted(number for file in files for number in read_table(file)["id"].to_pylist())


@pytest.fixture(params=["file", "delta", pytest.param("foreach batch", marks=pytest.mark.long)])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    folder = tmp_path / "storage"
    folder.mkdir()
    storage = Storage(folder)
    if request.param == "file":
        return Case(sink=FileSink.parquet(folder), storage=storage, seen=lambda: published_in(folder))
    if request.param == "delta":
        return Case(
            sink=DeltaSink.append(folder), storage=storage, seen=lambda: [row[0] for row in rows_of_table(folder)]
        )
    received = Given()
    return Case(
        sink=ForeachBatchSink(received),
        storage=storage,
        seen=lambda: sorted(received.by_checkpoint.get(1, ())),
        forget=received.by_checkpoint.clear,
    )


@_lengths(quick=100)
def test_an_outage_during_a_restore_loses_no_row_and_fails_no_job(
    spark: SparkSession, case: Case, lengths: tuple[int, ...]
) -> None:
    first = case.writer(spark, 0)
    prepared = first.prepare_commit(1, first.stage(rows_of_two_files(spark)).names)
    case.storage.keep()
    filesystem = FlickeringFileSystem(spark, case.storage)
    case.writer(spark, 1, filesystem).restore(prepared)

    for away in outages(filesystem.operations, lengths):
        case.storage.reset()
        case.forget()
        filesystem.plan(away)
        restarts(away, lambda: case.writer(spark, 1, filesystem).restore(prepared))
        case.storage.come_back()
        case.writer(spark, 2).restore(prepared)
        assert case.seen() == [0, 1], f"after an outage at operations {away}"


@_lengths(quick=1)
def test_an_outage_during_a_commit_loses_no_row_and_fails_no_job(
    spark: SparkSession, case: Case, lengths: tuple[int, ...]
) -> None:
    filesystem = FlickeringFileSystem(spark, case.storage)
    context = case.context(spark, 0, filesystem)
    staged = case.sink.bound(spark).writer(context)
    prepared = staged.prepare_commit(1, staged.stage(rows_of_two_files(spark)).names)
    case.storage.keep()

    def commit(away: range) -> None:
        # Rows are staged only once. A copy of their writer knows the staged files, and commits to a copy of the
        # folder.
        writer = deepcopy(staged, {id(shared): shared for shared in (context, filesystem)})
        filesystem.plan(away)
        restarts(away, lambda: writer.commit(1))

    commit(range(0))

    for away in outages(filesystem.operations, lengths):
        case.storage.reset()
        case.forget()
        commit(away)
        case.storage.come_back()
        case.writer(spark, 1).restore(prepared)
        assert case.seen() == [0, 1], f"after an outage at operations {away}"


def rows_of_two_files(spark: SparkSession) -> DataFrame:
    return spark.range(0, 2, 1, 2).toDF("id")


def outages(operations: int, lengths: tuple[int, ...]) -> Iterator[range]:
    return (range(begin, begin + length) for begin in range(operations) for length in lengths)


def restarts(away: range, work: Callable[[], object]) -> None:
    """Run the work, and fail if it raises an error that requests no restart."""
    try:
        work()
    except Exception as error:  # noqa: BLE001
        if suppresses_restarts(error):
            pytest.fail(f"an outage at operations {away} ended the job: {error!r}")
