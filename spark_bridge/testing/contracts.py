"""Tests that every connector must pass: derive a class from `SinkContract` or `SourceContract`, and pytest runs them.

    class TestMySink(SinkContract):
        def sink(self) -> Sink: ...
        def published(self) -> list[tuple]: ...

`self.folder` is a new folder for each test. `self.spark` is a Spark session, from your fixture `spark` if you have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from pyspark.sql import SparkSession

from flykka.actors.errors import OwnershipLostError
from flykka.actors.machines.state.operator_state import elements_of, list_state, repartition
from flykka.messages.state.handles import COMMITTABLES, OperatorListState, OperatorSubtaskState
from flykka.messages.tasks.source import SourceSplit
from flykka.messages.wire import codec
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, OperatorId
from flykka.messages.wire.message import Value
from flykka.spark_bridge.connectors.staging import StagingOwner
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.source import Boundedness, Source
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.session.attempt_scope import AttemptScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.program.sink_writer import SinkWriter

Row = tuple[object, ...]

_CHECKPOINTS = 2
_BATCHES = 2
_CALLS = ("stage",) * _BATCHES + ("prepare", "complete", "commit")
_POSITION_BYTES_MAX = 64 * 1024
"""The size limit of a source position, which every checkpoint contains."""
_OPERATOR = OperatorId("sink")


class _Contract(ABC):
    spark: SparkSession
    folder: Path

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        self.folder = tmp_path
        try:
            self.spark = request.getfixturevalue("spark")
        except pytest.FixtureLookupError:
            self.spark = SparkSession.builder.master("local[2]").getOrCreate()


@dataclass(slots=True)
class _Attempt:
    writer: SinkWriter[DataFrame]
    staged: list[str] = field(default_factory=list)
    prepared: Sequence[Value] = ()


class SinkContract(_Contract):
    """Tests of a sink. Rows have the columns of `schema`; row n is `row(n)`."""

    schema: ClassVar[str] = "id long, name string"
    shows_rows_once: ClassVar[bool] = True
    """False for an at-least-once sink, which may publish rows again."""

    @abstractmethod
    def sink(self) -> Sink:
        """Return the sink, with the same target at every call during a test."""

    @abstractmethod
    def published(self) -> list[Row]:
        """Return the rows that a reader of the target sees now, in any order."""

    def row(self, number: int) -> Row:
        """Return the row with a number. Different numbers give different rows."""
        return number, f"row {number}"

    def test_rows_become_visible_only_when_their_checkpoint_completes(self) -> None:
        """Before that, staged and prepared rows are invisible, if the sink supports it."""
        attempt = self._attempt(0)
        self._stage(attempt, 1)
        self._prepare(attempt, 1)
        before = self._sorted()
        attempt.writer.commit(1)

        assert before == (self._rows(1) if not self.sink().publishes_per_checkpoint else [])
        assert self._sorted() == self._rows(1)

    def test_a_repeated_commit_publishes_rows_once(self) -> None:
        """The notification of a completed checkpoint may be repeated."""
        attempt = self._attempt(0)
        self._stage(attempt, 1)
        self._prepare(attempt, 1)
        attempt.writer.commit(1)
        attempt.writer.commit(1)

        self._check(self._rows(1))

    @pytest.mark.parametrize("calls", range(1, _CHECKPOINTS * len(_CALLS) + 1))
    def test_no_row_is_lost_or_duplicated_if_an_attempt_dies_after_any_call(self, calls: int) -> None:
        """The next attempt starts from the last complete checkpoint."""
        attempt, complete, done = self._attempt(0), 0, 0
        checkpoint, call = 1, 0
        while checkpoint <= _CHECKPOINTS:
            self._call(attempt, _CALLS[call], checkpoint, call)
            if _CALLS[call] == "complete":
                complete, prepared = checkpoint, attempt.prepared
            done, call = done + 1, call + 1
            if call == len(_CALLS):
                checkpoint, call = checkpoint + 1, 0
            if done == calls:
                attempt = self._attempt(1)
                attempt.writer.restore(self._dealt([prepared], 1)[0] if complete else ())
                checkpoint, call = complete + 1, 0

        self._check([row for each in range(1, _CHECKPOINTS + 1) for row in self._rows(each)])

    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_a_checkpoint_is_restored_at_another_parallelism(self, parallelism: int) -> None:
        """The state of two subtasks is restored by one subtask, or by three if allowed. Two checkpoints are pending."""
        limit = self.sink().parallelism_limit
        former, later = (2, parallelism) if limit is None else (min(2, limit), min(parallelism, limit))
        before = [self._attempt(0, subtask=subtask, parallelism=former) for subtask in range(former)]
        for checkpoint in (1, 2):
            for subtask, attempt in enumerate(before):
                self._stage(attempt, 10 * (subtask + 1) + checkpoint)
                self._prepare(attempt, checkpoint)
        before[-1].writer.commit(1)
        pieces = self._dealt([attempt.prepared for attempt in before], later)
        for subtask, restored in enumerate(pieces):
            self._attempt(1, subtask=subtask, parallelism=later).writer.restore(restored)

        numbers = (10 * subtask + checkpoint for subtask in range(1, former + 1) for checkpoint in (1, 2))
        self._check([row for number in numbers for row in self._rows(number)])

    def test_a_restore_after_a_commit_publishes_no_row_twice(self) -> None:
        """The attempt died after the commit, but before it could report the commit."""
        first = self._attempt(0)
        self._stage(first, 1)
        self._prepare(first, 1)
        first.writer.commit(1)
        self._attempt(1).writer.restore(self._dealt([first.prepared], 1)[0])

        self._check(self._rows(1))

    def test_an_abandoned_attempt_that_continues_changes_nothing(self) -> None:
        """The commit of an abandoned attempt may fail, but its rows must stay invisible."""
        zombie = self._attempt(0)
        self._stage(zombie, 1)
        self._prepare(zombie, 1)
        self._attempt(1).writer.restore(self._dealt([zombie.prepared], 1)[0])
        with suppress(Exception):
            zombie.writer.commit(1)

        self._check(self._rows(1))

    def test_a_replaced_process_publishes_no_rows(self) -> None:
        """The process is paused, and resumes after another process has continued the job."""
        folder = self._staging_folder()
        if folder is None:
            pytest.skip("nothing is staged")
        paused = self._attempt(0, owner_number=1)
        self._stage(paused, 1)
        self._prepare(paused, 1)
        prepared = paused.prepared
        self._stage(paused, 2)
        self._prepare(paused, 2)

        filesystem = FileSystem(self.spark)
        StagingOwner(filesystem=filesystem, root=filesystem.qualified(folder), number=2).take_over()
        self._attempt(1, owner_number=2).writer.restore(self._dealt([prepared], 1)[0])
        with pytest.raises(OwnershipLostError):
            paused.writer.commit(2)
        self._stage(paused, 3)
        self._prepare(paused, 3)
        with pytest.raises(OwnershipLostError):
            paused.writer.commit(3)

        self._check(self._rows(1))

    def _staging_folder(self) -> str | None:
        # A different job id for each test, since targets remember jobs.
        return self.sink().bound(self.spark).staging_folder(JobId(self.folder.name), str(self.folder / "checkpoints"))

    def _attempt(self, number: int, *, subtask: int = 0, parallelism: int = 1, owner_number: int = 0) -> _Attempt:
        sink, job = self.sink().bound(self.spark), JobId(self.folder.name)
        sink.check_target(FileSystem(self.spark))
        attempt = ExecutionAttemptId(f"{job}_sink_{subtask}_{number}")
        context = SinkContext(
            filesystem=FileSystem(self.spark),
            scope=AttemptScope(self.spark, attempt, pool="contract", label="(1/1)#0"),
            user_session=self.spark,
            uid="sink",
            name="sink",
            operator="'sink'",
            subtask=subtask,
            parallelism=parallelism,
            attempt_number=number,
            staging_folder=self._staging_folder(),
            job_id=job,
            job_name="contract",
            owner_number=owner_number,
        )
        return _Attempt(sink.writer(context))

    def _call(self, attempt: _Attempt, call: str, checkpoint: int, number: int) -> None:
        match call:
            case "stage":
                rows = self._rows(checkpoint)
                self._stage_rows(attempt, rows[number::_BATCHES])
            case "prepare":
                self._prepare(attempt, checkpoint)
            case "commit":
                attempt.writer.commit(checkpoint)

    def _rows(self, number: int) -> list[Row]:
        return [self.row(10 * number + each) for each in range(4)]

    def _stage(self, attempt: _Attempt, number: int) -> None:
        self._stage_rows(attempt, self._rows(number))

    def _stage_rows(self, attempt: _Attempt, rows: list[Row]) -> None:
        attempt.staged += attempt.writer.stage(self.spark.createDataFrame(rows, self.schema)).names

    def _prepare(self, attempt: _Attempt, checkpoint: int) -> None:
        attempt.prepared = attempt.writer.prepare_commit(checkpoint, tuple(attempt.staged))
        attempt.staged = []

    def _dealt(self, prepared: Iterable[Sequence[Value]], parallelism: int) -> list[list[Value]]:
        lists: list[list[OperatorListState]] = [[list_state(COMMITTABLES, pieces)] for pieces in prepared]
        dealt = repartition(lists, parallelism)
        return [
            elements_of([OperatorSubtaskState(operator_id=_OPERATOR, operator_state=tuple(own))], COMMITTABLES, Value)
            for own in dealt
        ]

    def _sorted(self) -> list[Row]:
        return sorted(self.published(), key=repr)

    def _check(self, expected: list[Row]) -> None:
        visible = self._sorted() if self.shows_rows_once else sorted(set(self.published()), key=repr)
        assert visible == sorted(expected, key=repr)


class SourceContract(_Contract):
    @abstractmethod
    def source(self) -> Source:
        """Return the source, with the same origin at every call during a test; bounded, if possible."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Add rows to the origin."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return three new rows for `add`, as the source reads them."""

    def test_repeated_discoveries_read_every_row_once(self) -> None:
        """The second discovery finds the rows that arrived after the first."""
        added, discovery_result = self._added(), self._look(b"")
        more = self._added() if self.source().boundedness is Boundedness.CONTINUOUS_UNBOUNDED else []
        rest = self._look(discovery_result[1])

        assert self._read(discovery_result[0] + rest[0]) == sorted(added + more, key=repr)

    def test_discovery_from_a_checkpointed_position_finds_the_same_splits(self) -> None:
        """A checkpoint contains the position; another process continues from it and reads the same splits."""
        added, (splits, position) = self._added(), self._look(b"")
        stored = codec.decode(codec.encode(splits[0]))
        assert isinstance(stored, SourceSplit)

        assert len(position) < _POSITION_BYTES_MAX
        assert self._read([stored, *splits[1:]]) == self._read(splits) == sorted(added, key=repr)

    def test_split_names_are_unique(self) -> None:
        """Splits with equal names would be treated as one split."""
        self._added()
        splits, _ = self._look(b"")
        names = [split.split_id for split in splits]

        assert len(set(names)) == len(names)

    def test_completing_a_checkpoint_does_not_change_the_rows_read(self) -> None:
        """A restore starts from the completed checkpoint, so earlier rows are not read again."""
        added, (splits, position) = self._added(), self._look(b"")
        read = self._read(splits)
        self._bound().notify_checkpoint_complete(1, splits)

        assert read == sorted(added, key=repr)
        assert self._look(position)[0] == []

    def _added(self) -> list[Row]:
        rows = self.rows()
        self.add(rows)
        return rows

    def _bound(self) -> Source:
        source = self.source()
        return source.bound(self.spark, source.event_time)

    def _look(self, position: bytes) -> tuple[list[SourceSplit], bytes]:
        discovery = self._bound().split_discovery(OperatorId("source"), FileSystem(self.spark))
        splits: list[SourceSplit] = []
        while True:
            discovery_result = discovery.discover(position)
            splits, position = splits + list(discovery_result.splits), discovery_result.position
            if not discovery_result.more:
                return splits, position

    def _read(self, splits: Sequence[SourceSplit]) -> list[Row]:
        source = self._bound()
        schema = source.prototype(self.spark).schema
        frames = source.read(self.spark, schema, splits, in_slices=False)
        return sorted((tuple(row) for row in together(frames).select(*schema.names).collect()), key=repr)
