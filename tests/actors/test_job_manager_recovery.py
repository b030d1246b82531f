"""JobManagers and JobMasters are killed or lose the leadership: jobs resume, and no finished work is repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.job_manager.actor import ATTEMPTS_PER_START
from flykka.messages.control.high_availability import JobManagerLeaderAddress
from flykka.messages.control.job import (
    JobFound,
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    ListeningBehaviour,
    RegisterJobClient,
    RegisterJobClientSuccess,
    RequestJob,
    StopJob,
    StoppingFailure,
)
from tests.actors.drivers import Driver
from tests.actors.machines.graph.graphs import JOB

# JobMasters that end


def test_a_new_job_master_resumes_after_the_old_one_is_killed(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)

    driver.system.kill(driver.registration.job_master)
    task_manager = driver.bring_to_running("tm-2")
    driver.finish(task_manager)

    assert len(driver.job_masters()) == 2
    assert [each.attempt_number for each in driver.deployed(task_manager)] == [ATTEMPTS_PER_START] * 2
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert driver.data_plane.keeps_staged[0], "staged rows are left for the next leader"


def test_listeners_see_a_dead_job_master_as_a_restart(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)

    driver.system.kill(driver.registration.job_master)

    restarting = next(each for each in driver.received(driver.client, JobStatusChanged) if each.cause is not None)
    assert restarting.status is JobStatus.RESTARTING
    assert restarting.cause is not None
    assert restarting.cause.type_name == "JobMasterLostError"


def test_a_stop_request_fails_at_the_end_of_the_job_master(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)
    driver.job_manager.tell(StopJob(job_id=JOB, client=driver.client))

    driver.system.kill(driver.registration.job_master)

    assert "continues from the latest checkpoint" in driver.last(driver.client, StoppingFailure).cause.message


def test_a_cancelled_job_whose_job_master_ends_is_cancelled_by_the_next(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)
    driver.cancel()

    driver.system.kill(driver.registration.job_master)

    assert driver.last(driver.client, JobResultFailure).status is JobStatus.CANCELED
    assert driver.stored_jobs() == []


def test_a_job_fails_with_the_third_consecutive_job_master_error(driver: Driver) -> None:
    driver.submit(replace(driver.graph(), heartbeat_interval_ms=-1))

    failed = driver.last(driver.client, JobResultFailure)
    assert (failed.status, failed.cause.type_name) == (JobStatus.FAILED, "ActorInitializationError")
    assert driver.stored_jobs() == []


def test_a_job_does_not_fail_however_often_its_job_master_is_killed(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)

    for _ in range(5):
        driver.system.kill(driver.registration.job_master)
        driver.system.run_until_idle()

    assert len(driver.job_masters()) == 6
    assert driver.received(driver.client, JobResultFailure) == []


def test_a_job_whose_job_master_is_killed_while_archiving_is_not_repeated(driver: Driver) -> None:
    task_manager = driver.run(driver.graph(), slots=1)
    registration = driver.registration

    def kill_when_released(*_: object) -> None:
        if driver.data_plane.ended:
            remove()
            driver.system.kill(registration.job_master)

    remove = driver.system.add_delivery_hook(kill_when_released)
    driver.finish(task_manager)

    assert len(driver.job_masters()) == 1
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert not (driver.folder / JOB).exists()
    assert driver.stored_jobs() == []


# JobManagers that end


def test_a_new_job_manager_resumes_the_jobs_of_a_killed_one(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)

    driver.system.kill(driver.job_manager)
    driver.next_job_manager()
    driver.job_manager.tell(RegisterJobClient(job_id=JOB, client=driver.client))
    driver.finish(driver.bring_to_running("tm-2"))

    assert driver.received(driver.client, RegisterJobClientSuccess) == [RegisterJobClientSuccess(job_id=JOB)]
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_a_client_that_returns_after_its_job_ended_gets_the_result(driver: Driver) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))

    driver.system.kill(driver.job_manager)
    driver.next_job_manager()
    late = driver.stand("late")
    driver.job_manager.tell(RegisterJobClient(job_id=JOB, client=late))

    assert driver.received(late, JobResultSuccess) == [JobResultSuccess(job_id=JOB, is_earlier=True)]


def test_a_client_that_queries_an_unknown_job_is_notified(driver: Driver) -> None:
    driver.job_manager.tell(RegisterJobClient(job_id=JOB, client=driver.client))
    driver.job_manager.tell(RequestJob(job_id=JOB, client=driver.client))

    assert driver.received(driver.client, JobNotFound) == [JobNotFound(job_id=JOB)] * 2


def test_a_new_client_first_gets_the_status_of_the_job(driver: Driver) -> None:
    driver.submit(driver.graph(), ListeningBehaviour.DETACHED)
    driver.bring_to_running("tm-1")
    late = driver.stand("late")

    driver.job_manager.tell(RegisterJobClient(job_id=JOB, client=late))
    driver.job_manager.tell(RequestJob(job_id=JOB, client=late))

    said = [each for each in driver.all_received(late) if not isinstance(each, JobFound)]
    assert driver.received(late, JobStatusChanged)[0].status is JobStatus.RUNNING
    assert said[-1] == RegisterJobClientSuccess(job_id=JOB)
    assert driver.last(late, JobFound).job_graph == driver.graph()
    assert driver.received(driver.client, JobStatusChanged) == [], "it has asked for nothing"


def test_task_managers_are_notified_of_the_leader_with_each_new_session(driver: Driver) -> None:
    task_manager = driver.stand("task-manager-1")
    for _ in range(2):
        driver.system.kill(driver.job_manager)
        driver.next_job_manager()

    first, then = driver.received(task_manager, JobManagerLeaderAddress)
    assert first.address == then.address == "/user/job-manager"
    assert first.leader_session_id != then.leader_session_id


# Losing and regaining the leadership


def test_a_job_is_suspended_when_leadership_is_lost_and_resumes_when_regained(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.run(driver.graph(), slots=1)

    driver.services.lost()
    driver.system.run_until_idle()
    assert driver.statuses()[-1] is JobStatus.SUSPENDED
    assert caplog.messages == ["this driver no longer leads: its jobs are suspended until it leads again"]
    assert driver.system.find(driver.registration.job_master.path) is None
    assert driver.stored_jobs() == [JOB]

    driver.services.acquired()
    driver.finish(driver.bring_to_running("tm-2"))
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_requests_without_a_leader_are_answered_by_the_next_one(driver: Driver) -> None:
    driver.services.lost()
    driver.submit(driver.graph())
    assert driver.all_received(driver.client) == []

    driver.services.acquired()

    assert driver.received(driver.client, JobSubmitSuccess) == [JobSubmitSuccess(job_id=JOB)]
