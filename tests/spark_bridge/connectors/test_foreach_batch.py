"""Tests that a ForeachBatchSink calls its function with a checkpoint's rows, under one id, until it succeeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka.messages.state.handles import PendingFile
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink, ForeachBatchWriter
from flykka.spark_bridge.errors import OperatorFailedError, SinkError
from flykka.spark_bridge.rows.filesystem import FileSystem
from tests.spark_bridge.sink_contexts import CrashError, CrashingFileSystem, sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass
class Table:
    """Stores rows by checkpoint; `raises` is raised after the rows are stored. Its writers stage in `folder`."""

    spark: SparkSession
    folder: Path
    calls: list[tuple[int, list[int]]] = field(default_factory=list)
    raises: Exception | None = None

    def take(self, rows: DataFrame, checkpoint_id: int) -> None:
        self.calls.append((checkpoint_id, sorted(row.number for row in rows.collect())))
        if self.raises is not None:
            raise self.raises

    def writer(self, attempt: int = 0, filesystem: FileSystem | None = None, job: str = "job") -> ForeachBatchWriter:
        context = sink_context(
            self.spark, str(self.folder / job / "staged"), filesystem=filesystem, attempt_number=attempt
        )
        return ForeachBatchWriter(self.take, context)

    def rows(self, *numbers: int) -> DataFrame:
        return self.spark.createDataFrame([(number,) for number in numbers], "number long")

    def staged(self) -> list[Path]:
        return [path for path in self.folder.rglob("[!.]*.parquet") if path.is_file()]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def test_a_complete_checkpoint_is_passed_to_the_function_in_one_call(table: Table) -> None:
    writer = table.writer()
    writer.prepare_commit(1, writer.stage(table.rows(1, 2)).names + writer.stage(table.rows(3)).names)
    writer.prepare_commit(2, writer.stage(table.rows(4)).names)
    before = list(table.calls)

    writer.commit(1)
    writer.commit(2)

    assert before == []
    assert table.calls == [(1, [1, 2, 3]), (2, [4])]
    assert table.staged() == []


def test_the_checkpoint_folder_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path / "{runs}, [all]* ?")
    writer = table.writer()

    names = writer.stage(table.rows(1, 2)).names + writer.stage(table.rows(3)).names
    writer.prepare_commit(1, names)
    writer.commit(1)

    assert table.calls == [(1, [1, 2, 3])]


def test_the_function_is_not_called_for_an_empty_checkpoint(table: Table) -> None:
    writer = table.writer()
    writer.prepare_commit(1, writer.stage(table.rows(1).where("number > 1")).names)

    writer.commit(1)

    assert table.calls == []


def test_rows_of_an_aborted_checkpoint_are_passed_later_under_their_own_id(table: Table) -> None:
    writer = table.writer()
    writer.prepare_commit(1, writer.stage(table.rows(1)).names)
    writer.prepare_commit(2, writer.stage(table.rows(2)).names)

    writer.commit(2)

    assert table.calls == [(1, [1]), (2, [2])]


def test_an_error_names_the_operator_and_the_rows_are_retried(table: Table) -> None:
    writer = table.writer()
    state = writer.prepare_commit(1, writer.stage(table.rows(1, 2)).names)
    table.raises = ConnectionError("no database")

    with pytest.raises(OperatorFailedError, match=r"operator 'my sink', .* checkpoint 1") as failed:
        writer.commit(1)
    table.raises = None
    table.writer(attempt=1).restore(state)

    assert isinstance(failed.value.__cause__, ConnectionError)
    assert table.calls == [(1, [1, 2]), (1, [1, 2])]


def test_a_call_is_repeated_after_a_crash_before_it_was_recorded(table: Table) -> None:
    writer = table.writer(filesystem=CrashingFileSystem(table.spark, survives=0))
    state = writer.prepare_commit(1, writer.stage(table.rows(1, 2)).names)

    with pytest.raises(CrashError):
        writer.commit(1)
    table.writer(attempt=1).restore(state)
    table.writer(attempt=2).restore(state)

    assert table.calls == [(1, [1, 2]), (1, [1, 2])]
    assert table.staged() == []


def test_a_restore_discards_rows_outside_its_checkpoint(table: Table) -> None:
    writer = table.writer()
    state = writer.prepare_commit(1, writer.stage(table.rows(1)).names)
    writer.commit(1)
    writer.prepare_commit(2, writer.stage(table.rows(2)).names)

    table.writer(attempt=1).restore(state)

    assert table.calls == [(1, [1])]
    assert table.staged() == []


def test_a_successor_job_gets_its_predecessors_rows_and_cleans_up(table: Table) -> None:
    before = table.writer(job="before")
    state = before.prepare_commit(1, before.stage(table.rows(1)).names)
    before.stage(table.rows(9))

    after = table.writer(job="after")
    after.restore(state)
    restored = table.staged()
    after.commit(2)

    assert table.calls == [(1, [1])]
    assert restored != []
    assert list((table.folder / "before").iterdir()) == []


def test_missing_staged_rows_fail_the_commit(table: Table) -> None:
    writer = table.writer()
    first, second = writer.stage(table.rows(1)).names + writer.stage(table.rows(2)).names
    writer.prepare_commit(1, (first, second))
    FileSystem(table.spark).delete(second)

    with pytest.raises(SinkError, match="is missing: its rows would be lost"):
        writer.commit(1)

    assert table.calls == []


def test_state_of_another_sink_type_is_refused(table: Table) -> None:
    with pytest.raises(SinkError, match="'my sink' is a foreach-batch sink, but the checkpoint contains a PendingFile"):
        table.writer().restore([PendingFile(checkpoint_id=1, staged="a", target="b")])


def test_rows_are_passed_in_the_applications_session(table: Table) -> None:
    rows = table.spark.sql(
        "SELECT timestamp'2024-01-01 00:00:00.123456' AS at, timestamp_ntz'2024-01-01 12:00:00' AS wall,"
        " named_struct('a b', array(1, null), 'm', map('k', cast(1.50 AS decimal(9, 2)))) AS nested,"
        " cast(null AS date) AS day, x'00ff' AS bytes, interval '1' day AS length"
    )
    frames: list[DataFrame] = []
    writer = ForeachBatchWriter(
        lambda batch, _: frames.append(batch.localCheckpoint()), sink_context(table.spark, str(table.folder))
    )

    writer.prepare_commit(1, writer.stage(rows).names)
    writer.commit(1)

    assert frames[0].sparkSession is table.spark
    assert frames[0].schema.simpleString() == rows.schema.simpleString()
    assertDataFrameEqual(frames[0], rows)


def test_only_a_function_of_rows_and_id_is_accepted() -> None:
    def forgets(rows: DataFrame) -> None: ...

    with pytest.raises(TypeError, match=r"needs function\(rows, checkpoint_id\), not 'print'"):
        ForeachBatchSink("print")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"calls function\(rows, checkpoint_id\), but forgets takes \(rows: "):
        ForeachBatchSink(forgets)  # type: ignore[arg-type]
