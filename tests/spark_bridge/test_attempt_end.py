"""Tests that attempts end whatever blocks or fails, and never run at the same time as the next attempt."""

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
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS, DrivenAttempt, drive_attempt
from tests.spark_bridge.harness import Harness, transform, write_rows

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

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.begun, self.may_go_on = Event(), Event()
        write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
        self.vertex: JobVertex = harness.source(transform(self._wait), harness.sink())

    def blocked(self) -> DrivenAttempt:
        attempt = self.harness.begin(self.vertex).open()
        attempt.start_read(self.harness.splits(self.vertex))
        assert self.begun.wait(PATIENCE_SECONDS)
        return attempt

    def next(self, number: int = 1) -> DrivenAttempt:
        return self.harness.begin(self.vertex, number=number)

    def _wait(self, rows: DataFrame) -> DataFrame:
        self.begun.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return rows


@pytest.fixture
def patient(harness: Harness) -> Iterator[Blocking]:
    blocking = Blocking(harness)
    yield blocking
    blocking.may_go_on.set()


@pytest.fixture
def impatient(spark: SparkSession, registry: CodeRegistry, tmp_path: Path) -> Iterator[Blocking]:
    """A data plane with a short limit for cancelled work."""
    plane = SparkDataPlane(spark, registry, cancellation_timeout_seconds=0.1)
    blocking = Blocking(Harness(plane, registry, tmp_path))
    yield blocking
    blocking.may_go_on.set()
    blocking.harness.end()
    assert all(attempt.engine.end.wait(PATIENCE_SECONDS) for attempt in blocking.harness.attempts)
    assert plane.stats().batches == 0


def test_an_attempt_with_blocking_code_ends_and_reports_it(
    impatient: Blocking, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = impatient.blocked()

    with caplog.at_level(logging.WARNING):
        attempt.close(cancel=True)

    (warning,) = caplog.messages
    assert attempt.engine.descriptor.attempt in warning
    assert "stage 1 of 'source-source-0 -> source-stateless-1 -> source-sink-2'" in warning
    assert not attempt.engine.end.wait(0)


def test_blocking_user_code_is_interrupted(harness: Harness) -> None:
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

    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertex = harness.source(transform(never_end), harness.sink())
    attempt = harness.begin(vertex).open()
    attempt.start_read(harness.splits(vertex))
    assert begun.wait(PATIENCE_SECONDS)

    attempt.start_close(cancel=True)
    attempt.tell(CancelWork(), InterruptWork())

    assert isinstance(attempt.next(), WorkFailed)
    assert attempt.next() == ChainClosed()
    assert interrupted.is_set()
    assert attempt.engine.end.wait(PATIENCE_SECONDS)


def test_the_next_attempt_does_not_start_while_the_previous_one_is_blocked(impatient: Blocking) -> None:
    impatient.blocked().close(cancel=True)

    after = impatient.next()
    after.tell(OPEN)
    failed = after.expect_failure()

    assert failed.cause.type_name == "PredecessorRunsError"
    assert "job_source_0_0, is still running" in failed.cause.message


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
        impatient.harness.end()

    assert "job_source_0_0 is still running while its job job is released" in caplog.messages


def test_an_attempt_ends_an_unclosed_predecessor(patient: Blocking) -> None:
    before = patient.harness.begin(patient.vertex).open()

    patient.next().open()
    failed = before.expect_failure()
    before.start_close(cancel=True)

    assert (failed.cause.type_name, before.next()) == ("AttemptReplacedError", ChainClosed())
    assert "job_source_0_1 takes its place" in failed.cause.message


def test_a_cancellation_after_a_graceful_close_cancels(patient: Blocking) -> None:
    attempt = patient.blocked()

    attempt.start_close(cancel=False)
    attempt.tell(CancelWork())
    assert attempt.engine._scope._cancelled.wait(PATIENCE_SECONDS)
    patient.may_go_on.set()

    attempt.expect_failure()
    assert attempt.next() == ChainClosed()
    assert not patient.harness.output.exists()


def test_an_attempt_ends_if_spark_is_stopped(
    harness: Harness, registry: CodeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = StoppedSpark({FOLDER_VARIABLE: str(harness.folder / "is" / "gone")})
    template = harness.begin(harness.source(harness.sink()))
    services = JobServices(
        sessions=SparkSessions(harness.plane.session, owned=False),
        session=stopped,  # type: ignore[arg-type] # of a stopped context nothing else is left
        store=(store := BatchStore()),
        local_states=LocalStates(store),
        readers=SourceReaders(harness.plane.session),
        aggregates=JobAggregates(),
        registry=registry,
        filesystem=FileSystem(harness.plane.session),
        cancellation_timeout_seconds=PATIENCE_SECONDS,
        files=JobFiles(),
    )
    sinks = SinkJob(name="job", user_session=harness.plane.session, owner_number=0, check_owner=lambda: None)
    descriptor = template.engine.descriptor
    attempt = drive_attempt(
        harness.system,
        descriptor,
        lambda report: SparkEngine(descriptor, services, sinks, report=report, predecessor=None),
    )

    with caplog.at_level(logging.WARNING):
        attempt.tell(OPEN)
        failed = attempt.next()
        attempt.start_close(cancel=True)
        closed = attempt.next()

    assert isinstance(failed, WorkFailed | EngineFailed)
    assert failed.cause.type_name == "SessionStoppedError"
    assert closed == ChainClosed()
    assert "cannot free" not in caplog.text
