"""Threads of an attempt: what overlaps, what is in order, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import Queue
from threading import Barrier, Event
from time import monotonic

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.messages.ids import ExecutionAttemptId
from flykka.spark_bridge.errors import AttemptCancelledError
from flykka.spark_bridge.scope import AttemptScope
from flykka.spark_bridge.workers import Stage, Workers

pytestmark = pytest.mark.spark

SECONDS = 60


class Crew:
    """Workers, with what they did."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.scope = AttemptScope(spark, ExecutionAttemptId("attempt"), pool="pool")
        self.failures: Queue[tuple[str, BaseException]] = Queue()
        self.workers = Workers(self.scope, lambda what, raised: self.failures.put((what, raised)))
        self.settled: Queue[object] = Queue()

    def stage(self, prepare: Callable[[], object], what: str = "stage") -> None:
        self.workers.run_stage(Stage(what=what, prepare=prepare, settle=self.settled.put))

    def next_settled(self) -> object:
        return self.settled.get(timeout=SECONDS)

    def end(self, *, cancel: bool) -> None:
        self.workers.close(cancel=cancel)
        if cancel:
            self.scope.refuse()
        self.workers.wait_idle()


@pytest.fixture
def crew(spark: SparkSession) -> Crew:
    return Crew(spark)


def test_two_stages_are_prepared_at_once(crew: Crew) -> None:
    both = Barrier(2)

    crew.stage(lambda: both.wait(SECONDS) >= 0)
    crew.stage(lambda: both.wait(SECONDS) >= 0)

    assert crew.next_settled() is True
    assert crew.next_settled() is True
    crew.end(cancel=False)


def test_stages_settle_in_their_order_whichever_is_ready_first(crew: Crew) -> None:
    second_is_ready = Event()

    def first() -> int:
        assert second_is_ready.wait(SECONDS)
        return 1

    def second() -> int:
        second_is_ready.set()
        return 2

    crew.stage(first)
    crew.stage(second)

    assert [crew.next_settled(), crew.next_settled()] == [1, 2]
    crew.end(cancel=False)


def test_nothing_settles_behind_a_failure(crew: Crew) -> None:
    def broken() -> None:
        raise ValueError("broken")

    crew.stage(lambda: 1)
    crew.stage(broken, what="the second")
    crew.stage(lambda: 3)
    first = crew.next_settled()
    what, raised = crew.failures.get(timeout=SECONDS)
    crew.end(cancel=False)

    assert (first, what, str(raised)) == (1, "the second", "broken")
    assert crew.settled.empty()
    assert crew.failures.empty()


def test_background_work_runs_in_its_order_beside_the_stages(crew: Crew) -> None:
    done: Queue[int] = Queue()
    may_go_on = Event()

    crew.workers.run_in_background("first", lambda: done.put(int(may_go_on.wait(SECONDS))))
    crew.workers.run_in_background("second", lambda: done.put(2))
    crew.stage(lambda: "a stage")
    beside = crew.next_settled()
    may_go_on.set()

    assert beside == "a stage"
    assert [done.get(timeout=SECONDS), done.get(timeout=SECONDS)] == [1, 2]
    crew.end(cancel=False)


def test_what_was_begun_is_finished_where_nothing_is_cancelled(crew: Crew) -> None:
    done: Queue[int] = Queue()
    for number in range(5):
        crew.stage(lambda number=number: number)  # type: ignore[misc]
    crew.workers.run_in_background("last", lambda: done.put(1))

    crew.end(cancel=False)

    assert [crew.next_settled() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert done.get_nowait() == 1


def test_nothing_begins_in_a_cancelled_attempt(crew: Crew) -> None:
    crew.end(cancel=True)
    crew.stage(lambda: 1)
    crew.workers.run_in_background("late", lambda: crew.settled.put(2))

    crew.end(cancel=True)

    assert crew.settled.empty()
    with pytest.raises(AttemptCancelledError):
        crew.scope.check()


@pytest.mark.slow
def test_a_sleeping_python_function_is_stopped_within_a_second(crew: Crew, tmp_path: Path) -> None:
    begun, woken = tmp_path / "begun", tmp_path / "woken"

    @F.udf("long")
    def sleeping(number: int) -> int:
        from pathlib import Path
        from time import sleep

        Path(begun).touch()
        sleep(3)
        Path(woken).touch()
        return number

    crew.stage(lambda: crew.spark.range(0, 1, 1, 1).select(sleeping("id")).collect())
    deadline = monotonic() + SECONDS
    while not begun.exists() and monotonic() < deadline:
        Event().wait(0.02)
    cancelled = monotonic()
    crew.end(cancel=True)
    took = monotonic() - cancelled
    Event().wait(3.5 - took)

    assert begun.exists()
    assert took < 1
    assert not woken.exists(), "the driver has let go, but the function has run to its end"
    assert crew.failures.empty()


@pytest.mark.slow
def test_a_materialisation_that_is_cancelled_halfway_leaves_no_block(crew: Crew, tmp_path: Path) -> None:
    half_way = tmp_path / "half way"

    @F.udf("long")
    def first_quick_then_slow(number: int) -> int:
        from pathlib import Path
        from time import sleep

        if number:
            Path(half_way).touch()
            sleep(20)
        return number

    before = len(crew.spark.sparkContext._jsc.getPersistentRDDs())
    rows = crew.spark.range(0, 2, 1, 2).select(first_quick_then_slow("id"))
    crew.stage(lambda: rows.localCheckpoint())
    deadline = monotonic() + SECONDS
    while not half_way.exists() and monotonic() < deadline:
        Event().wait(0.02)

    crew.end(cancel=True)
    swept = crew.scope.sweep(keep=frozenset())

    assert swept == 1
    assert len(crew.spark.sparkContext._jsc.getPersistentRDDs()) == before
