"""Tests the demo's check of its output: it finds every kind of error, and reports it with its exit code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from types import ModuleType

import pytest
from pyspark.sql import Row

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.control.job import CheckpointCompleted, ExecutionStateChanged, JobRestored
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.job_cluster import ScriptedDataPlane

# The first test that uses the example waits until its data set is read.
pytestmark = pytest.mark.slow

JOB = JobId("flights")
MIDNIGHT = datetime(2013, 1, 1)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Two TaskManagers without tasks, which the tests kill."""
    system = SeededSystem()
    local_cluster = LocalCluster(ScriptedDataPlane(), ClusterSettings(task_managers=2), system=system)
    system.run_until_idle()
    yield local_cluster
    local_cluster.shutdown()


def window_row(
    hour: int = 0, origin: str = "JFK", *, flights: int = 12, mean: float | None = 3.5, most: float = 40.0
) -> Row:
    start = MIDNIGHT + timedelta(hours=hour)
    return Row(
        window_start=start,
        window_end=start + timedelta(hours=1),
        origin=origin,
        flights=flights,
        cancelled=1,
        mean_delay=mean,
        max_delay=most,
    )


BATCH = [window_row(0), window_row(0, "LGA"), window_row(1), window_row(2, mean=None)]


def task_running(task: str, task_manager: str) -> ExecutionStateChanged:
    return ExecutionStateChanged(
        job_id=JOB,
        attempt=ExecutionAttemptId(f"{task}-0"),
        task_name=task,
        state=ExecutionState.RUNNING,
        timestamp_ms=0,
        task_manager=TaskManagerId(task_manager),
    )


def checkpoint_completed(checkpoint: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint,
        duration_ms=0,
        size_bytes=0,
        incremental_bytes=0,
        path=f"/chk-{checkpoint}",
        timestamp_ms=0,
    )


def test_the_same_rows_in_another_order_are_equal(demo: ModuleType) -> None:
    assert demo.differences(BATCH[::-1], BATCH) == []


def test_a_missing_row_is_a_difference(demo: ModuleType) -> None:
    assert demo.differences(BATCH[1:], BATCH) == [f"job None, batch {window_row(0)}"]


def test_a_row_missing_from_the_batch_is_a_difference(demo: ModuleType) -> None:
    assert demo.differences([*BATCH, window_row(7)], BATCH) == [f"job {window_row(7)}, batch None"]


def test_a_duplicate_row_is_a_difference(demo: ModuleType) -> None:
    assert demo.differences([*BATCH, window_row(1)], BATCH) == [f"written 2 times: {window_row(1)}"]


@pytest.mark.parametrize(
    "other",
    [
        window_row(mean=3.5001),
        window_row(mean=None),
        window_row(flights=13),
        window_row(most=40.000000001),
        Row(**{**window_row().asDict(), "cancelled": 2}),
        Row(**{**window_row().asDict(), "window_end": MIDNIGHT}),
    ],
)
def test_a_changed_value_is_a_difference(demo: ModuleType, other: Row) -> None:
    assert demo.differences([other], [window_row()]) == [f"job {other}, batch {window_row()}"]
    assert demo.differences([window_row()], [other]) == [f"job {window_row()}, batch {other}"]


def test_only_means_may_differ_by_rounding_of_sums(demo: ModuleType) -> None:
    assert demo.equal(window_row(mean=0.1 + 0.2), window_row(mean=0.3))
    assert not demo.equal(window_row(most=0.1 + 0.2), window_row(most=0.3))


def test_a_mean_of_no_flights_equals_only_another_such_mean(demo: ModuleType) -> None:
    assert demo.equal(window_row(mean=None), window_row(mean=None))
    assert not demo.equal(window_row(mean=None), window_row(mean=0.0))
    assert not demo.equal(window_row(mean=None), window_row(mean=None, flights=13))


def test_equal_rows_give_the_verdict_exactly_once(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = demo.verdict(BATCH, BATCH, None)

    assert (code, capsys.readouterr().out) == (0, "exactly once: 4 rows, equal to the batch result\n")


def test_one_difference_refutes_exactly_once(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = demo.verdict([*BATCH, window_row(1)], BATCH, None)

    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"written 2 times: {window_row(1)}",
        "NOT exactly once: 1 differences",
    ]


def test_the_last_keyed_subtasks_task_manager_is_killed_at_checkpoint_three(
    demo: ModuleType, cluster: LocalCluster
) -> None:
    killer = demo.Killer(cluster)
    killer(task_running("Source: flights (1/1)", "task-manager-1"))
    killer(task_running(f"{demo.KEYED} (2/2)", "task-manager-2"))
    killer(task_running(f"{demo.KEYED} (1/2)", "task-manager-1"))

    living = []
    for checkpoint in (1, 2, 3):
        killer(checkpoint_completed(checkpoint))
        living.append(cluster.task_managers())

    assert living == [("task-manager-1", "task-manager-2")] * 2 + [("task-manager-1",)]
    assert killer.killed == "task-manager-2"


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (
            [checkpoint_completed(1), checkpoint_completed(2)],
            "no TaskManager was killed: 3 checkpoints did not complete",
        ),
        (
            [checkpoint_completed(1), checkpoint_completed(2), checkpoint_completed(3)],
            "no checkpoint completed after the kill",
        ),
        (
            [checkpoint_completed(1), checkpoint_completed(2), checkpoint_completed(3), checkpoint_completed(4)],
            "no checkpoint completed after the kill",
        ),
        (
            [
                checkpoint_completed(1),
                checkpoint_completed(2),
                checkpoint_completed(3),
                JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=0),
            ],
            "no checkpoint completed after the kill",
        ),
    ],
)
def test_a_run_that_lacks_the_kill_or_its_recovery_fails(
    demo: ModuleType,
    cluster: LocalCluster,
    capsys: pytest.CaptureFixture[str],
    history: list[CheckpointCompleted | JobRestored],
    complaint: str,
) -> None:
    killer = demo.Killer(cluster)
    for message in [task_running(f"{demo.KEYED} (1/1)", "task-manager-1"), *history]:
        killer(message)

    code = demo.verdict(BATCH, BATCH, killer)

    assert code == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [complaint, "NOT exactly once: 1 differences"]


def test_a_run_with_a_kill_a_restore_and_another_checkpoint_succeeds(demo: ModuleType, cluster: LocalCluster) -> None:
    killer = demo.Killer(cluster)
    restored = JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=0)
    history = [
        checkpoint_completed(1),
        checkpoint_completed(2),
        checkpoint_completed(3),
        restored,
        checkpoint_completed(4),
    ]
    for message in [task_running(f"{demo.KEYED} (1/1)", "task-manager-1"), *history]:
        killer(message)

    assert demo.verdict(BATCH, BATCH, killer) == 0
    assert killer.completed_after.is_set()


@pytest.mark.parametrize("wrong", [["--parallelism", "0"], ["--task-managers", "no"], ["--checkpoint-interval", "0s"]])
def test_an_invalid_option_is_a_usage_error(
    demo: ModuleType, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(wrong)

    assert ended.value.code == 2
    assert f"argument {wrong[0]}: " in capsys.readouterr().err
