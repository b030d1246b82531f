"""An attempt that does not end: it is cancelled, interrupted, given up with its TaskManager, and the job goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.job import JobResultSuccess, JobStatus, JobStatusChanged, TaskManagerLost
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.stage import CloseBridge
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cast import ALL_FILES, Bridge, Names, Sink, Stage, is_a

SOON = TaskCancellationSettings(interval_ms=400, timeout_ms=1_000)


class StubbornBridge(Bridge):
    """Does not end when it is cancelled."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, told: list[CloseBridge]) -> None:
        super().__init__(descriptor, sink)
        self._told = told

    def handle_message(self, message: Message) -> None:
        if isinstance(message, CloseBridge) and message.cancel:
            self._told.append(message)
        else:
            super().handle_message(message)


class StubbornNames(Names):
    """The first attempt of the second source reads in a way that nothing stops."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[CloseBridge] = []

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        if not descriptor.inputs and descriptor.subtask == 1 and descriptor.attempt_number == 0:
            return Props(StubbornBridge, descriptor, self.sink, self.told)
        return super().bridge_props(descriptor)


@pytest.mark.parametrize("seed", range(3))
def test_an_attempt_that_cannot_be_stopped_is_given_up_and_the_job_comes_to_its_end(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        data_plane = StubbornNames()
        stage = Stage(system, tmp_path, data_plane)
        # The other source dies, so that this one is cancelled.
        other = system.actor_selection("/user/task-manager-*/source-0.0-*")
        kill_when(system, other.resolve_one, is_a(AcknowledgeCheckpoint))
        stage.submit(task_cancellation=SOON)

        stage.run(seconds=20)

        lost = stage.client.heard(TaskManagerLost)
        assert [told.interrupt for told in data_plane.told] == [False, True, True]
        assert len(lost) == 1
        assert "did not end within 1000 ms after it was cancelled" in lost[0].reason
        assert "set_task_cancellation(timeout=...)" in lost[0].reason
        assert [changed.status for changed in stage.client.heard(JobStatusChanged)][-1] is JobStatus.FINISHED
        assert len(stage.client.heard(JobResultSuccess)) == 1
        assert data_plane.sink.published == ALL_FILES
