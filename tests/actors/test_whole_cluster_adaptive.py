"""A whole cluster with the adaptive scheduler: a job runs in the available slots, and each row is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.control.job import CancelJob, JobResultFailure, JobResultSuccess, JobStatus, JobStatusChanged
from flykka.messages.control.rescaling import (
    JobParallelismChanged,
    RequestRescales,
    RescalesSnapshot,
    RescaleTerminatedReason,
    RescaleTrigger,
)
from flykka.messages.graph.job_graph import Operator, SchedulerType
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.wire.ids import JobId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, Folder, KeyedRows, keyed_job
from tests.actors.peer import Utter
from tests.actors.whole_cluster import WholeCluster, seeds

pytestmark = pytest.mark.slow

JOB, OTHER = JobId("job"), JobId("other")
WAIT_MS, COOLDOWN_MS = 400, 300


class SlowFolder(Folder):
    found_at_once = 1


class EmptyFolder(Folder):
    def discover(self, position: bytes) -> SplitsDiscovered:
        return SplitsDiscovered(
            operator_id=self._operator_id, splits=(), finished=False, begun_at=position, position=b"0"
        )


class TwoJobs(KeyedRows):
    """A data plane with a second job, which occupies slots and reads no rows."""

    def split_discovery(self, job_id: JobId, operator: Operator) -> Folder:
        return (EmptyFolder if job_id == OTHER else SlowFolder)(operator.operator_id)


class Adaptive:
    def __init__(self, system: SeededSystem, folder: Path) -> None:
        self.system = system
        self.plane = TwoJobs()
        self.stage = WholeCluster(system, folder, self.plane)

    def submit(self, parallelism: int) -> None:
        self.stage.submit(
            JOB,
            vertices=keyed_job(parallelism),
            scheduler_type=SchedulerType.ADAPTIVE,
            resource_wait_timeout_ms=WAIT_MS,
            rescale_cooldown_ms=COOLDOWN_MS,
            slot_request_timeout_ms=5_000,
        )

    def submit_other(self, parallelism: int) -> None:
        """Submit a job with the default scheduler, which waits for all its slots."""
        self.stage.submit(OTHER, vertices=keyed_job(parallelism))

    def cancel_other(self) -> None:
        cancel = CancelJob(job_id=OTHER, client=self.stage.client.ref)
        self.stage.client.ref.tell(Utter(receiver=self.stage.job_manager, message=cancel))

    def parallelism(self) -> list[int]:
        changes = self.stage.client.recorded(JobParallelismChanged)
        return [changed.vertices[0].parallelism for changed in changes if changed.job_id == JOB]

    def advance_until(self, parallelism: int) -> None:
        while self.parallelism()[-1:] != [parallelism]:
            assert JOB not in [success.job_id for success in self.stage.client.recorded(JobResultSuccess)]
            self.system.advance(10)

    def triggers(self) -> list[tuple[RescaleTrigger, RescaleTerminatedReason | None]]:
        client = self.stage.client
        client.ref.tell(
            Utter(receiver=self.stage.job_manager, message=RequestRescales(job_id=JOB, reply_to=client.ref))
        )
        self.system.advance(100)
        return [(each.trigger, each.reason) for each in client.received(RescalesSnapshot)[-1].rescales]

    def finish(self) -> None:
        self.stage.run(seconds=60)
        assert JOB in [success.job_id for success in self.stage.client.recorded(JobResultSuccess)]
        assert self.plane.durable.rows() == ALL_ROWS
        assert self.plane.durable.late == []


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_starts_with_the_available_slots_after_waiting_for_all(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = Adaptive(system, tmp_path)
        job.submit(6)

        system.advance(WAIT_MS - 50)
        assert job.parallelism() == []
        job.advance_until(4)

        assert job.triggers() == [(RescaleTrigger.INITIAL_SCHEDULE, RescaleTerminatedReason.SUCCEEDED)]
        job.finish()


def test_a_job_with_enough_slots_starts_at_once(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = Adaptive(system, tmp_path)
        job.stage.run(seconds=1)
        job.submit(3)

        system.advance(WAIT_MS - 100)

        assert job.parallelism() == [3]
        job.finish()


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_scales_up_when_slots_become_free(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = Adaptive(system, tmp_path)
        job.submit_other(2)
        system.advance(1_000)
        job.submit(4)
        job.advance_until(2)

        job.cancel_other()
        job.advance_until(4)

        system.advance(100)
        assert job.triggers()[-1] == (RescaleTrigger.NEW_RESOURCE_AVAILABLE, RescaleTerminatedReason.SUCCEEDED)
        job.finish()


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_that_loses_slots_to_another_job_resumes_with_fewer(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = Adaptive(system, tmp_path)
        job.submit(4)
        job.advance_until(4)
        job.submit_other(2)
        system.advance(200)

        job.stage.kill("task-manager-1")
        job.advance_until(2)

        job.finish()


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_whose_task_manager_is_replaced_resumes_with_as_many_slots(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        job = Adaptive(system, tmp_path)
        job.submit(4)
        job.advance_until(4)
        system.advance(200)

        job.stage.kill("task-manager-1")
        job.finish()

        assert set(job.parallelism()) == {4}


def test_a_job_that_waits_too_long_without_slots_fails(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        job = Adaptive(system, tmp_path)
        job.submit_other(4)
        system.advance(1_000)

        job.submit(2)
        job.stage.run(seconds=8)

        [failed] = [each for each in job.stage.client.recorded(JobResultFailure) if each.job_id == JOB]
        assert failed.cause.type_name == "NoResourceAvailableError"
        assert "needs at least 1 slots" in failed.cause.message
        statuses = [each.status for each in job.stage.client.recorded(JobStatusChanged) if each.job_id == JOB]
        assert statuses == [JobStatus.FAILING, JobStatus.FAILED]
