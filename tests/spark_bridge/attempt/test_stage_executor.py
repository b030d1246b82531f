"""Tests the threads of an attempt: which work runs concurrently, which work is ordered, and how work ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from queue import Queue
from threading import Barrier, Event, get_ident
from time import monotonic
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import Lane
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.spark_bridge.attempt.attempt_work import read_work
from flykka.spark_bridge.attempt.stage_executor import StageExecutor
from flykka.spark_bridge.errors import AttemptCancelledError
from flykka.spark_bridge.session.attempt_scope import AttemptScope

pytestmark = pytest.mark.spark

SECONDS = 60


@dataclass(frozen=True)
class QueuedWork:
    """Work that an actor has started, with a queue that receives its outcome."""

    work: Callable[[], object]
    outcomes: Queue[object]

    def with_work(self, work: Callable[[], object]) -> QueuedWork:
        return replace(self, work=work)

    def run(self) -> None:
        try:
            self.outcomes.put(self.work())
        except Exception as raised:  # noqa: BLE001 - it is an outcome
            self.outcomes.put(raised)


class ExecutorHarness:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.scope = AttemptScope(spark, ExecutionAttemptId("attempt"), pool="pool", label="(1/1)#0")
        self.workers = StageExecutor(self.scope)
        self.outcomes: Queue[object] = Queue()
        self.numbers = count(1)

    def run(self, work: Callable[[], object], lane: Lane = Lane.STAGES, what: str = "work") -> None:
        piece: Any = QueuedWork(work, self.outcomes)
        self.workers.run(lane, next(self.numbers), what, piece)

    def next(self) -> object:
        return self.outcomes.get(timeout=SECONDS)

    def end(self, *, cancel: bool) -> None:
        self.workers.close(cancel=cancel)
        if cancel:
            self.scope.refuse()
        self.workers.wait_idle()


@pytest.fixture
def harness(spark: SparkSession) -> ExecutorHarness:
    return ExecutorHarness(spark)


def test_two_stages_move_rows_concurrently(harness: ExecutorHarness) -> None:
    both = Barrier(2)

    harness.run(lambda: both.wait(SECONDS) >= 0)
    harness.run(lambda: both.wait(SECONDS) >= 0)

    assert [harness.next(), harness.next()] == [True, True]
    harness.end(cancel=False)


def test_an_error_is_the_outcome_of_its_own_work_only(harness: ExecutorHarness) -> None:
    def broken() -> None:
        raise ValueError("broken")

    harness.run(broken)
    raised = harness.next()
    harness.run(lambda: 2)

    assert (str(raised), harness.next()) == ("broken", 2)
    harness.end(cancel=False)


def test_the_description_of_the_last_work_includes_its_rows_failure_and_spark_jobs(harness: ExecutorHarness) -> None:
    def moving() -> StageResult:
        return StageResult(stage=1, rows_in=harness.spark.range(5).count(), rows_out=2)

    def broken() -> None:
        raise ValueError("broken")

    # Spark also knows the jobs of earlier tests under these ids.
    harness.numbers = count(1_000)
    harness.run(moving, what="stage 1")
    harness.next()
    harness.run(lambda: None, what="stage 1")
    harness.next()
    harness.run(broken, what="snapshot 7")
    harness.next()
    # Spark's job counter is updated after the thread that waits for the job continues.
    harness.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    work = read_work(harness.scope, harness.workers)
    snapshot, stage = work.pieces
    harness.end(cancel=False)

    assert (work.attempt, work.spark_ui) == ("attempt", None)
    assert (snapshot.what, snapshot.has_failed, snapshot.rows_in, snapshot.spark_jobs) == ("snapshot 7", True, None, ())
    assert (stage.what, stage.has_failed, stage.rows_in, stage.rows_out) == ("stage 1", False, 5, 2)
    assert len(stage.spark_jobs) >= 1
    assert stage.took_ms is not None
    assert stage.age_ms >= stage.took_ms


def test_spark_jobs_of_a_work_item_describe_it_and_its_attempt(harness: ExecutorHarness) -> None:
    def work_texts() -> tuple[str | None, ...]:
        harness.spark.range(3).count()
        names = ("spark.job.description", "spark.jobGroup.id")
        return tuple(harness.spark.sparkContext.getLocalProperty(name) for name in names)

    harness.run(work_texts)
    harness.run(work_texts)

    described = "work (1/1)#0"
    assert {harness.next(), harness.next()} == {(described, "flykka-attempt 1"), (described, "flykka-attempt 2")}
    assert harness.spark.sparkContext.statusTracker().getJobIdsForGroup("flykka-attempt 1")
    harness.end(cancel=False)


def test_background_work_runs_in_order_beside_the_stages(harness: ExecutorHarness) -> None:
    may_go_on = Event()

    harness.run(lambda: may_go_on.wait(SECONDS), Lane.BACKGROUND)
    harness.run(lambda: "behind it", Lane.BACKGROUND)
    harness.run(lambda: "a stage")
    beside = harness.next()
    may_go_on.set()

    assert [beside, harness.next(), harness.next()] == ["a stage", True, "behind it"]
    harness.end(cancel=False)


def test_engine_work_runs_in_order_and_is_dropped_at_the_end(
    harness: ExecutorHarness,
) -> None:
    begun, may_go_on = Event(), Event()
    raised: list[BaseException] = []

    def work() -> None:
        begun.set()
        may_go_on.wait(SECONDS)
        raise ValueError("broken")

    harness.workers.run_in_background("merging", work, raised.append)
    harness.workers.run_in_background("merging", lambda: harness.outcomes.put("behind it"), raised.append)
    harness.run(lambda: "in the background", Lane.BACKGROUND)
    harness.run(lambda: "a stage")
    assert begun.wait(SECONDS)
    beside = {harness.next(), harness.next()}
    harness.workers.close(cancel=False)
    may_go_on.set()
    harness.end(cancel=False)

    assert beside == {"in the background", "a stage"}
    assert [str(each) for each in raised] == ["broken"]
    assert harness.outcomes.empty()


def test_urgent_work_runs_on_the_calling_thread(harness: ExecutorHarness) -> None:
    harness.run(get_ident, Lane.AT_ONCE)

    assert harness.outcomes.get_nowait() == get_ident()


def test_queued_work_completes_if_the_attempt_is_not_cancelled(harness: ExecutorHarness) -> None:
    for number in range(5):
        harness.run(lambda number=number: number, Lane.BACKGROUND)  # type: ignore[misc]

    harness.end(cancel=False)

    assert [harness.outcomes.get_nowait() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_no_work_starts_in_a_cancelled_attempt(harness: ExecutorHarness) -> None:
    harness.end(cancel=True)
    harness.run(lambda: 1)
    harness.run(lambda: 2, Lane.BACKGROUND)

    harness.end(cancel=True)

    assert harness.outcomes.empty()
    with pytest.raises(AttemptCancelledError):
        harness.scope.check()


@pytest.mark.slow
def test_a_sleeping_python_function_is_stopped_within_a_second(harness: ExecutorHarness, tmp_path: Path) -> None:
    begun, woken = tmp_path / "begun", tmp_path / "woken"

    @F.udf("long")
    def sleeping(number: int) -> int:
        from pathlib import Path
        from time import sleep

        Path(begun).touch()
        sleep(2)
        Path(woken).touch()
        return number

    harness.run(lambda: harness.spark.range(0, 1, 1, 1).select(sleeping("id")).collect())
    deadline = monotonic() + SECONDS
    while not begun.exists() and monotonic() < deadline:
        Event().wait(0.02)
    cancelled = monotonic()
    harness.end(cancel=True)
    took = monotonic() - cancelled
    Event().wait(2.5 - took)

    assert begun.exists()
    assert took < 1
    assert not woken.exists(), "the driver has let go, but the function has run to its end"


@pytest.mark.slow
def test_a_materialisation_cancelled_halfway_leaves_no_block(harness: ExecutorHarness, tmp_path: Path) -> None:
    half_way = tmp_path / "half way"

    @F.udf("long")
    def first_quick_then_slow(number: int) -> int:
        from pathlib import Path
        from time import sleep

        if number:
            Path(half_way).touch()
            sleep(20)
        return number

    before = persisted(harness.spark)
    rows = harness.spark.range(0, 2, 1, 2).select(first_quick_then_slow("id"))
    harness.run(lambda: rows.localCheckpoint())
    deadline = monotonic() + SECONDS
    while not half_way.exists() and monotonic() < deadline:
        Event().wait(0.02)

    half_made = persisted(harness.spark) - before
    harness.end(cancel=True)
    harness.scope.sweep(keep=frozenset())

    assert len(half_made) == 1
    # The swept RDDs are not counted: once the job has ended, Spark's own cleaner may have been faster.
    assert not half_made & persisted(harness.spark)


def persisted(spark: SparkSession) -> frozenset[int]:
    return frozenset(spark.sparkContext._jsc.getPersistentRDDs())
