"""The jobs that a driver submits in one run of an application, in a store that it shares with earlier runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.cluster.application_jobs import ApplicationJobs, IdentifiedJob
from flykka.messages.control.high_availability import ApplicationRun, CheckpointPointer
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.drivers import Driver

BOOM = SerializedThrowable(type_name="OSError", message="the disk is full")


class Application:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.jobs = ApplicationJobs(driver.services, JobManagerGateway(driver.system, driver.job_manager))
        self.said: list[str] = []

    def identify(
        self, name: str = "counts", restore_path: str | None = None, *, repeats: bool = False
    ) -> IdentifiedJob:
        graph = replace(self.driver.graph(), name=name)
        return self.jobs.identify(
            graph, restore_path, allow_non_restored_state=False, notify=self.said.append, repeats=repeats
        )

    def identified(self, name: str = "counts") -> JobId:
        return self.identify(name).job_graph.job_id

    def note(self, end: JobEnded) -> None:
        leader = self.driver.services.leader()
        assert leader is not None
        self.driver.services.store(leader.leader_session_id).put_result(end)

    def point_to(self, job_id: JobId, pointer: CheckpointPointer) -> None:
        leader = self.driver.services.leader()
        assert leader is not None
        pointers = self.driver.services.store(leader.leader_session_id).checkpoints(job_id)
        pointers.recover("coordinator", 1)
        pointers.add("coordinator", pointer)

    def last_run(self) -> ApplicationRun:
        run = self.driver.services.last_run()
        assert run is not None
        return run


@pytest.fixture
def first(tmp_path: Path, store: EmbeddedStore) -> Iterator[Application]:
    with SeededSystem(3) as system:
        yield Application(Driver(system, tmp_path, store, "first"))


@pytest.fixture
def second(tmp_path: Path, store: EmbeddedStore, first: Application) -> Iterator[Application]:
    """A standby application, which waits until the first application closes."""
    with SeededSystem(4) as system:
        yield Application(Driver(system, tmp_path, store, "second"))


@pytest.fixture
def store() -> EmbeddedStore:
    return EmbeddedStore()


def test_jobs_have_the_same_ids_in_every_driver_of_a_run(first: Application, second: Application) -> None:
    ids = [first.identified(name) for name in ("counts", "counts", "sums")]
    first.driver.services.close()

    assert len(set(ids)) == 3
    assert [second.identified(name) for name in ("counts", "counts", "sums")] == ids
    assert second.said == [], "it leads by then"


def test_a_finished_job_is_not_run_again(first: Application, second: Application) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FINISHED))
    first.driver.services.close()

    assert second.identified() == job_id


def test_the_checkpoint_of_a_finished_job_is_not_read(first: Application, second: Application, tmp_path: Path) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FINISHED))
    first.point_to(job_id, CheckpointPointer(checkpoint_id=7, path=str(tmp_path / "gone" / "chk-7")))
    first.driver.services.close()

    again = second.identify()

    assert again.has_ended
    assert again.checkpoint is None


@pytest.mark.parametrize(
    "end",
    [
        JobEnded(job_id=JobId(""), status=JobStatus.FAILED, cause=BOOM, checkpoint_path="/old/chk-7"),
        JobEnded(job_id=JobId(""), status=JobStatus.FINISHED, checkpoint_path="/old/chk-7"),
        JobEnded(job_id=JobId(""), status=JobStatus.CANCELED, checkpoint_path="/old/chk-7"),
    ],
)
def test_an_ended_job_runs_again_from_its_last_checkpoint(
    end: JobEnded, first: Application, second: Application
) -> None:
    job_id = first.identified()
    first.note(replace(end, job_id=job_id))
    first.driver.services.close()

    again = second.identify()

    assert again.job_graph.job_id != job_id
    assert again.restore_path == "/old/chk-7"


def test_a_stopped_job_starts_from_the_location_chosen_by_the_user(first: Application, second: Application) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FINISHED, checkpoint_path="/old/chk-7"))
    first.driver.services.close()

    assert second.identify(restore_path="/savepoint").restore_path == "/savepoint"


def test_a_finished_job_that_is_repeated_has_a_new_id(first: Application, second: Application) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FINISHED))
    first.driver.services.close()

    again = second.identify(repeats=True)

    assert again.job_graph.job_id != job_id
    assert not again.has_ended


def test_a_failed_job_without_a_checkpoint_starts_from_its_start_location(
    first: Application, second: Application
) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FAILED, cause=BOOM))
    first.driver.services.close()

    assert second.identify(restore_path="/savepoint").restore_path == "/savepoint"


def test_a_standby_starts_a_new_run_with_the_first_unknown_job(first: Application, second: Application) -> None:
    job_id = first.identified()
    first.note(JobEnded(job_id=job_id, status=JobStatus.FINISHED))
    run = first.last_run()
    first.jobs.end(concludes=True)
    first.driver.services.close()

    assert second.identified() == job_id
    assert second.last_run() == replace(run, is_concluded=True)

    second.identified("another")
    assert second.last_run().run_id != run.run_id
    assert not second.last_run().is_concluded


def test_a_run_without_an_orderly_end_stays_open_and_is_reported(
    first: Application, caplog: pytest.LogCaptureFixture
) -> None:
    first.identified()

    first.jobs.end(concludes=False)

    assert not first.last_run().is_concluded
    assert caplog.messages == ["the application has not ended: when it is run again, it continues where it stopped"]
