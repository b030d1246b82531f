"""An attempt ignores its cancellation: it is interrupted, its TaskManager is abandoned, and the job continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.attempt.commands import Command, Lane
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.job import JobResultSuccess, JobStatus, JobStatusChanged, TaskManagerLost
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.runtime.dispatch.dispatcher import Executor, Pipe
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.engines import NamesEngine, Sink
from tests.actors.whole_cluster import ALL_FILES, Names, WholeCluster, is_a, seeds

SOON = TaskCancellationSettings(interval_ms=400, timeout_ms=1_000)


class Nowhere:
    def run_blocking(self, work: Pipe[Any]) -> None: ...


class StubbornEngine(NamesEngine):
    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, calls: list[str]) -> None:
        super().__init__(descriptor, sink)
        self._calls = calls

    def lane(self, command: Command, piece: int, what: str) -> Executor:
        return Nowhere() if command.lane is Lane.END and self._calls else super().lane(command, piece, what)

    def cancel_work(self) -> None:
        self._calls.append("cancel")

    def interrupt_work(self) -> None:
        self._calls.append("interrupt")


class StubbornNames(Names):
    """A data plane in which the first attempt of the second source cannot be interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> NamesEngine:
        if not descriptor.inputs and descriptor.subtask == 1 and descriptor.attempt_number == 0:
            return StubbornEngine(descriptor, self.sink, self.calls)
        return super().engine(descriptor, report)


@pytest.mark.parametrize("seed", seeds(3))
def test_an_unstoppable_attempt_is_abandoned_and_the_job_ends(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        data_plane = StubbornNames()
        stage = WholeCluster(system, tmp_path, data_plane)
        # The other source is killed, so that this source is cancelled.
        other = system.actor_selection("/user/task-manager-*/source-0.0-*")
        kill_when(system, other.resolve_one, is_a(AcknowledgeCheckpoint))
        stage.submit(task_cancellation=SOON)

        stage.run(seconds=20)

        lost = stage.client.received(TaskManagerLost)
        assert data_plane.calls == ["cancel", *["cancel", "interrupt"] * 2]
        assert len(lost) == 1
        assert "did not end within 1000 ms after it was cancelled" in lost[0].reason
        assert "set_task_cancellation(timeout=...)" in lost[0].reason
        assert [changed.status for changed in stage.client.received(JobStatusChanged)][-1] is JobStatus.FINISHED
        assert len(stage.client.received(JobResultSuccess)) == 1
        assert data_plane.sink.published == ALL_FILES
