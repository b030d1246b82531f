"""A whole cluster with a job of two regions: if a task of one region fails, the other region continues, and each file
is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.control.job import (
    CheckpointCompleted,
    JobRestored,
    JobStatus,
    TriggerSavepointSuccess,
)
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.engines import NamesEngine, Sink
from tests.actors.whole_cluster import ALL_FILES, Names, WholeCluster

pytestmark = pytest.mark.slow

REGIONS: dict[str, Any] = {
    "ship_strategy": ShipStrategy.FORWARD,
    "failover_strategy": FailoverStrategyKind.REGION,
    "restart_strategy": FixedDelayRestartStrategyConfiguration(delay_ms=100),
}
"""Two pipelines of one source, whose splits are read by readers in both pipelines."""

GROWING = ExponentialDelayRestartStrategyConfiguration(
    initial_backoff_ms=100,
    max_backoff_ms=500,
    backoff_multiplier=2.0,
    reset_backoff_threshold_ms=1_000,
    jitter_factor=0.5,
)


class FailingEngine(NamesEngine):
    """Fails once, at the `count`th call of this method."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, call: str, count: int) -> None:
        super().__init__(descriptor, sink)
        self._left = count
        asked = getattr(self, call)

        @wraps(asked)
        def fail(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise OSError("no row can be read")
            return asked(*arguments)

        setattr(self, call, fail)


class OneFails(Names):
    """A data plane in which the first attempt of one subtask fails, at the `count`th call of this method."""

    def __init__(self, vertex: str, call: str, count: int = 1) -> None:
        super().__init__()
        self._vertex, self._call, self._count = vertex, call, count

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> NamesEngine:
        is_the_one = descriptor.subtask == 0 and descriptor.attempt_number == 0
        if is_the_one and descriptor.vertex.name == self._vertex:
            return FailingEngine(descriptor, self.sink, self._call, self._count)
        return super().engine(descriptor, report)


@pytest.mark.parametrize("mode", ScheduleMode)
@pytest.mark.parametrize(
    ("vertex", "call", "count"),
    [
        ("source", "open", 1),
        ("source", "read_splits", 1),
        ("source", "prepare_commit", 1),
        ("source", "commit", 1),
        ("sink", "open", 1),
    ],
)
def test_only_the_region_of_a_failed_task_restarts(
    vertex: str, call: str, count: int, mode: ScheduleMode, tmp_path: Path
) -> None:
    with SeededSystem(count) as system:
        stage = WholeCluster(system, tmp_path, OneFails(vertex, call, count))
        stage.submit(**REGIONS, schedule_mode=mode)

        stage.run(seconds=10)

        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert stage.attempt_numbers() == {"source_0": 1, "source_1": 0, "sink_0": 1, "sink_1": 0}
        assert stage.data_plane.sink.published == ALL_FILES


def test_a_region_restores_the_last_checkpoint_and_no_earlier_one(tmp_path: Path) -> None:
    with SeededSystem(7) as system:
        stage = WholeCluster(system, tmp_path, OneFails("source", "read_splits", 2))
        stage.checkpointing = {"interval_ms": 100}
        stage.submit(**REGIONS)

        stage.run(seconds=10)

        completed = [each.checkpoint_id for each in stage.client.received(CheckpointCompleted)]
        (restored,) = stage.client.received(JobRestored)
        assert restored.checkpoint_id in completed
        assert stage.attempt_numbers()["source_1"] == 0
        assert stage.data_plane.sink.published == ALL_FILES


def test_splits_read_after_a_savepoint_are_returned_from_the_earlier_checkpoint(tmp_path: Path) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints", OneFails("source", "read_splits", 2))
        # There is no checkpoint except the savepoint, from which no reader may restore.
        stage.checkpointing = {"interval_ms": 60_000}
        stage.submit(**REGIONS)
        system.advance(600)
        stage.trigger_savepoint(tmp_path / "savepoints")

        stage.run(seconds=10)

        assert len(stage.client.received(TriggerSavepointSuccess)) == 1
        assert [each.checkpoint_id for each in stage.client.received(JobRestored)] == [None]
        assert stage.data_plane.sink.published == ALL_FILES


def test_a_job_without_restarts_fails_if_a_region_fails(tmp_path: Path) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path, OneFails("source", "read_splits"))
        stage.submit(**(REGIONS | {"restart_strategy": NoRestartStrategyConfiguration()}))

        stage.run(seconds=10)

        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]


def test_with_full_failover_all_tasks_restart(tmp_path: Path) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path, OneFails("source", "read_splits"))
        stage.submit(**(REGIONS | {"failover_strategy": FailoverStrategyKind.FULL}))

        stage.run(seconds=10)

        assert JobStatus.RESTARTING in stage.statuses()
        assert set(stage.attempt_numbers().values()) == {1}
        assert stage.data_plane.sink.published == ALL_FILES


def test_a_region_restarts_after_a_delay_with_random_jitter(tmp_path: Path) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path, OneFails("source", "read_splits"))
        stage.submit(**(REGIONS | {"restart_strategy": GROWING}))

        stage.run(seconds=10)

        assert stage.attempt_numbers() == {"source_0": 1, "source_1": 0, "sink_0": 1, "sink_1": 0}
        assert stage.data_plane.sink.published == ALL_FILES
