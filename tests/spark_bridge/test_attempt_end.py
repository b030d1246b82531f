"""Tests that attempts end whatever blocks or fails, and never run beside the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.messages.attempt.answers import ChainClosed, EngineFailed, WorkFailed
from flykka.messages.attempt.commands import CancelWork, InterruptWork, OpenChain
from flykka.messages.graph.job_graph import JobVertex
from flykka.spark_bridge.attempt.engine import SparkEngine
from flykka.spark_bridge.attempt.services import JobServices
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.errors import AttemptCancelledError
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.global_aggregates import JobAggregates
from flykka.spark_bridge.operators.source_reader import SourceReaders
from flykka.spark_bridge.program.sink import SinkJob
from flykka.spark_bridge.rows.batches import BatchStore
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.python_daemon import FOLDER_VARIABLE
from flykka.spark_bridge.session.spark_sessions import SparkSessions
from flykka.spark_bridge.state.local_state import LocalStates
from flykka.spark_bridge.user_files.job_files import JobFiles
from tests.spark_bridge.laboratory import Laboratory, transform, write_rows
from tests.spark_bridge.told import PATIENCE_SECONDS, Told, attempt_told

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPEN = OpenChain(restore=None)


class StoppedSpark:
    """A session whose context was stopped: its JVM objects are gone."""

    _jsc = None

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    @property
    def sparkContext(self) -> StoppedSpark:
        return self


class Blocking:
    """A source whose user function blocks in the driver until the test releases it."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self.begun, self.may_go_on = Event(), Event()
        write_rows(laboratory.input / "0.parquet", [(1, 1, 0.0)])
        self.vertex: JobVertex = laboratory.source(transform(self._wait), laboratory.sink())

    def blocked(self) -> Told:
        """Start an attempt, and wait until that function runs."""
        told = self.laboratory.begin(self.vertex).open()
        told.tell_read(self.laboratory.splits(self.vertex))
        assert self.begun.wait(PATIENCE_SECONDS)
        return told

    def next(self, number: int = 1) -> Told:
        """Create a later attempt of the same subtask, not yet opened."""
        return self.laboratory.begin(self.vertex, number=number)

    def _wait(self, rows: DataFrame) -> DataFrame:
        self.begun.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return rows


@pytest.fixture
def patient(laboratory: Laboratory) -> Iterator[Blocking]:
    made = Blocking(laboratory)
    yield made
    made.may_go_on.set()


@pytest.fixture
def impatient(spark: SparkSession, registry: CodeRegistry, tmp_path: Path) -> Iterator[Blocking]:
    """A data plane that soon stops waiting for cancelled work."""
    plane = SparkDataPlane(spark, registry, cancellation_timeout_seconds=0.1)
    made = Blocking(Laboratory(plane, registry, tmp_path))
    yield made
    made.may_go_on.set()
    made.laboratory.end()
    assert all(told.engine.end.wait(PATIENCE_SECONDS) for told in made.laboratory.attempts)
    assert plane.stats().batches == 0


def test_an_attempt_with_blocking_code_ends_and_reports_it(
    impatient: Blocking, caplog: pytest.LogCaptureFixture
) -> None:
    told = impatient.blocked()

    with caplog.at_level(logging.WARNING):
        told.close(cancel=True)

    (warning,) = caplog.messages
    assert told.engine.descriptor.attempt in warning
    assert "stage 1 of 'source-source-0 -> source-stateless-1 -> source-sink-2'" in warning
    assert not told.engine.end.wait(0)


def test_blocking_user_code_is_interrupted(laboratory: Laboratory) -> None:
    begun, interrupted = Event(), Event()

    def never_end(rows: DataFrame) -> DataFrame:
        begun.set()
        deadline = monotonic() + PATIENCE_SECONDS
        try:
            while monotonic() < deadline:
                sleep(0.001)
        except AttemptCancelledError:
            interrupted.set()
            raise
        return rows

    write_rows(laboratory.input / "0.parquet", [(1, 1, 0.0)])
    vertex = laboratory.source(transform(never_end), laboratory.sink())
    told = laboratory.begin(vertex).open()
    told.tell_read(laboratory.splits(vertex))
    assert begun.wait(PATIENCE_SECONDS)

    told.tell_close(cancel=True)
    told.tell(CancelWork(), InterruptWork())

    assert isinstance(told.next(), WorkFailed)
    assert told.next() == ChainClosed()
    assert interrupted.is_set()
    assert told.engine.end.wait(PATIENCE_SECONDS)


def test_the_next_attempt_does_not_start_beside_a_blocked_one(impatient: Blocking) -> None:
    impatient.blocked().close(cancel=True)

    after = impatient.next()
    after.tell(OPEN)
    failed = after.expect_failure()

    assert failed.cause.type_name == "PredecessorRunsError"
    assert "job_source_0_0, still runs" in failed.cause.message


def test_an_attempt_closed_before_opening_takes_its_predecessors_place(impatient: Blocking) -> None:
    impatient.blocked()
    impatient.next().close(cancel=True)

    after = impatient.next(2)
    after.tell(OPEN)
    failed = after.expect_failure()

    assert failed.cause.type_name == "PredecessorRunsError"


def test_the_end_of_a_job_does_not_wait_forever(impatient: Blocking, caplog: pytest.LogCaptureFixture) -> None:
    impatient.blocked()

    with caplog.at_level(logging.WARNING):
        impatient.laboratory.end()

    assert "job_source_0_0: job job is released while it still runs" in caplog.messages


def test_an_attempt_ends_an_unclosed_predecessor(patient: Blocking) -> None:
    before = patient.laboratory.begin(patient.vertex).open()

    patient.next().open()
    failed = before.expect_failure()
    before.tell_close(cancel=True)

    assert (failed.cause.type_name, before.next()) == ("AttemptReplacedError", ChainClosed())
    assert "job_source_0_1 takes its place" in failed.cause.message


def test_a_cancellation_after_a_graceful_close_cancels(patient: Blocking) -> None:
    told = patient.blocked()

    told.tell_close(cancel=False)
    told.tell(CancelWork())
    assert told.engine._scope._cancelled.wait(PATIENCE_SECONDS)
    patient.may_go_on.set()

    told.expect_failure()
    assert told.next() == ChainClosed()
    assert not patient.laboratory.output.exists()


def test_an_attempt_ends_if_spark_is_stopped(
    laboratory: Laboratory, registry: CodeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = StoppedSpark({FOLDER_VARIABLE: str(laboratory.folder / "is" / "gone")})
    told = laboratory.begin(laboratory.source(laboratory.sink()))
    services = JobServices(
        sessions=SparkSessions(laboratory.plane.session, owned=False),
        session=stopped,  # type: ignore[arg-type] # of a stopped context nothing else is left
        store=(store := BatchStore()),
        local_states=LocalStates(store),
        readers=SourceReaders(laboratory.plane.session),
        aggregates=JobAggregates(),
        registry=registry,
        filesystem=FileSystem(laboratory.plane.session),
        cancellation_timeout_seconds=PATIENCE_SECONDS,
        files=JobFiles(),
    )
    sinks = SinkJob(name="job", user_session=laboratory.plane.session, owner_number=0, check_owner=lambda: None)
    descriptor = told.engine.descriptor
    attempt = attempt_told(
        laboratory.system,
        descriptor,
        lambda report: SparkEngine(descriptor, services, sinks, report=report, predecessor=None),
    )

    with caplog.at_level(logging.WARNING):
        attempt.tell(OPEN)
        failed = attempt.next()
        attempt.tell_close(cancel=True)
        closed = attempt.next()

    assert isinstance(failed, WorkFailed | EngineFailed)
    assert failed.cause.type_name == "SessionStoppedError"
    assert closed == ChainClosed()
    assert "cannot free" not in caplog.text
