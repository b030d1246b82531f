"""A whole cluster in which a running job is rescaled: no row is lost, duplicated or late."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.control.checkpoint_coordination import CheckpointRequest, RestoreState
from flykka.messages.control.job import (
    CancelJob,
    CheckpointCompleted,
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    StoppingSuccess,
)
from flykka.messages.control.rescaling import (
    JobParallelismChanged,
    JobResourceRequirements,
    JobResourceRequirementsRefused,
    JobResourceRequirementsUpdated,
    JobVertexResourceRequirements,
    RequestJobResourceRequirements,
    RequestRescales,
    Rescale,
    RescalesSnapshot,
    RescaleTerminatedReason,
    RescaleTrigger,
    UpdateJobResourceRequirements,
)
from flykka.messages.tasks.task import CancelTask, SubmitTask
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, KeyedRows, keyed_job
from tests.actors.peer import Utter
from tests.actors.whole_cluster import WholeCluster, is_a, seeds

pytestmark = pytest.mark.slow

M = TypeVar("M", bound=Message)

JOB = JobId("job")


class RescaledJob:
    """A job of a source and a keyed vertex, both with the same bounds of parallelism."""

    def __init__(self, system: SeededSystem, folder: Path, parallelism: int = 1) -> None:
        self.system = system
        self.plane = KeyedRows()
        self.stage = WholeCluster(system, folder, self.plane)
        self.stage.submit(JOB, vertices=keyed_job(parallelism))

    def received(self, kind: type[M]) -> list[M]:
        return self.stage.client.recorded(kind)

    def statuses(self) -> list[JobStatus]:
        return [changed.status for changed in self.received(JobStatusChanged)]

    def tell(self, message: Message) -> None:
        self.stage.client.ref.tell(Utter(receiver=self.stage.job_manager, message=message))

    def require(self, upper: int, lower: int = 1, vertices: tuple[str, ...] = ("source", "keyed")) -> None:
        bounds = tuple(
            JobVertexResourceRequirements(vertex_id=JobVertexId(name), lower_bound=lower, upper_bound=upper)
            for name in vertices
        )
        requirements = JobResourceRequirements(vertices=bounds)
        client = self.stage.client.ref
        self.tell(UpdateJobResourceRequirements(job_id=JOB, client=client, requirements=requirements))

    def advance_until(self, parallelism: int) -> None:
        while self.reported_parallelisms()[-1:] != [parallelism]:
            assert not self.received(JobResultSuccess), "the job has ended before"
            self.system.advance(10)

    def reported_parallelisms(self) -> list[int]:
        return [changed.vertices[0].parallelism for changed in self.received(JobParallelismChanged)]

    def rescales(self) -> tuple[Rescale, ...]:
        self.tell(RequestRescales(job_id=JOB, reply_to=self.stage.client.ref))
        self.system.advance(100)
        return self.received(RescalesSnapshot)[-1].rescales

    def finish(self) -> None:
        self.stage.run(seconds=60)
        assert [success.job_id for success in self.received(JobResultSuccess)] == [JOB]
        assert self.plane.durable.rows() == ALL_ROWS
        assert self.plane.durable.late == []


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_rescaled_while_running_processes_each_row_once(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.require(3)
        job.advance_until(3)
        system.advance(300)
        job.require(2)
        job.advance_until(2)
        job.finish()

        assert job.reported_parallelisms() == [3, 2]


def test_the_rescale_history_contains_each_rescale(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)
        job.require(3)
        job.advance_until(3)
        system.advance(300)

        job.require(3)
        system.advance(100)
        [done, ignored] = job.rescales()

        assert (done.trigger, done.reason) == (RescaleTrigger.UPDATE_REQUIREMENT, RescaleTerminatedReason.SUCCEEDED)
        assert [(each.pre_parallelism, each.post_parallelism) for each in done.vertices] == [(1, 3), (1, 3)]
        assert [span.state.value for span in done.states] == [
            "Executing",
            "Restarting",
            "CreatingExecutionGraph",
            "Executing",
        ]
        assert ignored.reason is RescaleTerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
        assert done.requirements_id != ignored.requirements_id


def test_a_rescale_without_slots_waits_for_them(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.require(9, lower=5)
        system.advance(1_000)
        assert job.reported_parallelisms() == []
        job.require(9)
        job.advance_until(4)

        first, second = job.rescales()
        assert first.reason is RescaleTerminatedReason.RESOURCE_REQUIREMENTS_UPDATED
        assert second.vertices[0].desired_parallelism == 9
        job.finish()


def test_a_checkpoint_is_taken_before_a_rescale_and_restored(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.require(2)
        job.advance_until(2)

        system.advance(100)

        [completed] = job.received(CheckpointCompleted)
        [restored] = job.received(JobRestored)
        assert completed.checkpoint_id == restored.checkpoint_id
        assert completed.timestamp_ms - completed.duration_ms == 400, "it is the periodic one"
        job.finish()


@pytest.mark.parametrize("moment", [CheckpointRequest, CancelTask, RestoreState, SubmitTask, NotifyCheckpointComplete])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_task_manager_killed_during_a_rescale_loses_no_row(moment: type[Message], seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = RescaledJob(system, tmp_path, parallelism=2)
        system.advance(400)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))

        job.require(3)
        job.advance_until(3)
        job.finish()

        assert kill.done
        assert job.reported_parallelisms() == [3]


@pytest.mark.parametrize("moment", [CheckpointRequest, CancelTask, RestoreState, SubmitTask])
@pytest.mark.parametrize("seed", seeds(3))
def test_the_next_job_master_keeps_the_requirements(moment: type[Message], seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)
        kill = kill_when(system, "/user/job-manager/job-job", is_a(moment))

        job.require(3)
        job.advance_until(3)
        job.finish()

        assert kill.done


@pytest.mark.parametrize("seed", seeds(3))
def test_the_latest_requirements_during_a_restart_apply(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.require(3)
        while JobStatus.RESTARTING not in job.statuses():
            system.advance(1)
        job.require(4)
        job.require(2)
        job.advance_until(2)

        job.finish()


def test_a_job_cancelled_during_a_rescale_is_cancelled(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)
        job.require(3)
        while JobStatus.RESTARTING not in job.statuses():
            system.advance(1)

        job.tell(CancelJob(job_id=JOB, client=job.stage.client.ref))
        job.stage.run(seconds=5)

        assert job.statuses()[-1] is JobStatus.CANCELED
        assert job.received(JobResultFailure)[0].status is JobStatus.CANCELED


def test_a_stopping_job_is_not_rescaled(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.stage.stop(JOB)
        job.require(3)
        job.stage.run(seconds=5)

        assert len(job.received(StoppingSuccess)) == 1
        assert job.reported_parallelisms() == []


def test_impossible_requirements_are_refused_and_current_ones_can_be_queried(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = RescaledJob(system, tmp_path)
        system.advance(400)

        job.require(129, vertices=("keyed",))
        system.advance(50)
        job.tell(RequestJobResourceRequirements(job_id=JOB, client=job.stage.client.ref))
        system.advance(50)

        [refused] = job.received(JobResourceRequirementsRefused)
        assert refused.cause.type_name == "RescaleNotSupportedError"
        assert "'keyed'" in refused.cause.message
        assert "its maximum parallelism is 128" in refused.cause.message
        [updated] = job.received(JobResourceRequirementsUpdated)
        assert [(each.lower_bound, each.upper_bound) for each in updated.requirements.vertices] == [(1, 1), (1, 1)]
        assert not updated.is_new
