"""A driver that takes over resumes the jobs of its predecessor, and repeats no finished work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.errors import LeadershipLostError, UnboundOperatorError
from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.actors.job_manager.store import clean_up_job
from flykka.messages.control.job import (
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobSubmitSuccess,
)
from flykka.messages.control.job_control import JobEnded, JobResultRecorded
from flykka.messages.control.job_manager import JobsRecovered
from flykka.runtime.dispatch.dispatcher import Runnable
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.drivers import Driver
from tests.actors.machines.graph.graphs import JOB


def test_a_second_driver_waits_until_the_first_driver_has_ended(driver: Driver, second: Driver) -> None:
    assert driver.run_of_application() is not None
    assert second.run_of_application() is None

    driver.services.close()

    assert second.run_of_application() == driver.services.last_run()


def test_a_submission_to_a_driver_without_leadership_is_logged(
    driver: Driver, second: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    driver.run(driver.graph(), slots=1)
    caplog.clear()

    second.submit(second.graph())

    assert f"job {JOB} ('{second.graph().name}') was submitted, and waits until this driver leads" in caplog.messages


def test_a_takeover_resumes_a_job_when_its_application_submits_it(driver: Driver, second: Driver) -> None:
    driver.run(driver.graph(), slots=1)
    driver.services.close()
    second.system.run_until_idle()
    assert second.job_masters() == [], "there is no code for it yet"

    second.submit(second.graph())
    second.finish(second.bring_to_running("tm-1"))

    assert second.received(second.client, JobSubmitSuccess) == [JobSubmitSuccess(job_id=JOB)]
    assert second.received(second.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_a_job_with_incompatible_code_is_refused_and_kept_for_resubmission(driver: Driver, second: Driver) -> None:
    driver.run(driver.graph(), slots=1)
    driver.services.close()
    second.data_plane.refusal = UnboundOperatorError("no operator 'sink'")

    second.submit(second.graph())
    assert second.last(second.client, JobResultFailure).cause.message == "no operator 'sink'"
    assert second.stored_jobs() == [JOB]

    second.data_plane.refusal = None
    second.submit(second.graph())
    assert len(second.job_masters()) == 1


def test_a_takeover_does_not_repeat_a_job_finished_in_the_same_run(driver: Driver, second: Driver) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))
    driver.services.close()

    second.submit(second.graph())

    assert second.received(second.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB, is_earlier=True)]
    assert second.job_masters() == []


def test_a_job_being_archived_at_a_takeover_is_answered_with_its_result(driver: Driver, second: Driver) -> None:
    task_manager = driver.run(driver.graph(), slots=1)
    remove = driver.system.add_delivery_hook(
        lambda _recipient, message, _sender: driver.services.close() if type(message) is JobResultRecorded else None
    )
    driver.finish(task_manager)
    remove()
    assert second.stored_jobs() == [JOB]

    second.submit(second.graph())

    assert second.received(second.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB, is_earlier=True)]
    assert second.job_masters() == []
    assert second.stored_jobs() == []


def test_a_waiting_driver_gets_the_results_of_a_concluded_run(driver: Driver, second: Driver) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))
    run = driver.conclude()

    assert second.run_of_application() == replace(run, is_concluded=True)
    second.submit(second.graph())
    assert second.last(second.client, JobResultSuccess).is_earlier

    following = second.run_of_application(begins_new=True)
    assert following is not None
    assert following.run_id != run.run_id
    assert not following.is_concluded


def test_a_driver_started_after_a_concluded_run_starts_a_new_run(
    driver: Driver, tmp_path: Path, store: EmbeddedStore
) -> None:
    run = driver.conclude()

    with SeededSystem(5) as system:
        following = Driver(system, tmp_path / "checkpoints", store, "third").run_of_application()

    assert following is not None
    assert following.run_id != run.run_id


def test_a_driver_that_regains_leadership_resumes_a_job_run_elsewhere(
    driver: Driver, second: Driver, store: EmbeddedStore
) -> None:
    driver.run(driver.graph(), slots=1)
    driver.fall_asleep(store)
    second.submit(second.graph())
    second.services.close()

    driver.wake_up(store)
    driver.finish(driver.bring_to_running("tm-2"))

    assert driver.received(driver.client, JobSubmitSuccess) == [JobSubmitSuccess(job_id=JOB)]
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_a_driver_that_regains_leadership_gets_the_results_of_its_concluded_run(
    driver: Driver, second: Driver, store: EmbeddedStore
) -> None:
    driver.run(driver.graph(), slots=1)
    driver.fall_asleep(store)
    second.submit(second.graph())
    second.finish(second.bring_to_running("tm-1"))
    run = second.conclude()

    driver.wake_up(store)

    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert driver.run_of_application() == replace(run, is_concluded=True)


def end_elsewhere_while_at_work(
    driver: Driver, second: Driver, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> list[Runnable]:
    """Let the first driver lose the leadership while blocking work of its job runs, and let the second driver end the
    job. Return the blocking work.
    """
    driver.run(driver.graph(), slots=1)
    held: list[Runnable] = []
    with monkeypatch.context() as busy:
        busy.setattr(driver.system.schedule, "run_blocking", held.append)
        driver.fall_asleep(store)
    second.submit(second.graph())
    second.finish(second.bring_to_running("tm-1"))
    second.conclude()
    return held


def test_a_job_ended_by_another_driver_is_removed_after_its_local_work(
    driver: Driver, second: Driver, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = end_elsewhere_while_at_work(driver, second, store, monkeypatch)

    driver.wake_up(store)
    driver.submit(driver.graph())
    meanwhile = driver.received(driver.client, JobResultSuccess)
    for work in held:
        driver.system.schedule.execute(work)

    assert meanwhile == []
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB, is_earlier=True)]
    assert driver.data_plane.ended == [JOB]
    assert len(driver.job_masters()) == 1


@pytest.mark.parametrize("seed", range(4))
def test_running_work_of_a_job_ended_by_another_driver_is_stopped(
    store: EmbeddedStore, tmp_path: Path, seed: int
) -> None:
    with SeededSystem(seed) as system, SeededSystem(4) as other:
        driver = Driver(system, tmp_path / "checkpoints", store, "first")
        driver.run(driver.graph(), slots=1)
        store.leave(driver.services._backend)
        driver.services.lost()
        second = Driver(other, tmp_path / "checkpoints", store, "second")
        second.submit(second.graph())
        second.finish(second.bring_to_running("tm-1"))
        run = second.conclude()

        driver.wake_up(store)

        assert driver.data_plane.ended == [JOB]
        assert driver.run_of_application() == replace(run, is_concluded=True)
        assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_a_job_ended_by_another_driver_is_not_restarted(
    driver: Driver, second: Driver, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run(driver.graph(), slots=1)
    driver.fall_asleep(store)
    held: list[Runnable] = []
    second.submit(second.graph())
    second.services.close()
    with monkeypatch.context() as busy:
        answered = driver.system.add_delivery_hook(
            lambda _recipient, message, _sender: (
                busy.setattr(driver.system.schedule, "run_blocking", held.append)
                if type(message) is JobsRecovered
                else None
            )
        )
        driver.wake_up(store)
        answered()
        driver.fall_asleep(store)
    assert held
    with SeededSystem(6) as system:
        third = Driver(system, driver.folder, store, "third")
        third.submit(third.graph())
        third.finish(third.bring_to_running("tm-3"))
        third.conclude()

    driver.wake_up(store)
    for work in held:
        driver.system.schedule.execute(work)
    driver.system.run_until_idle()

    assert len(driver.job_masters()) == 1
    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert driver.run_of_application() is not None


def test_a_later_runs_job_resumes_before_the_earlier_job_is_removed(
    driver: Driver, second: Driver, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = end_elsewhere_while_at_work(driver, second, store, monkeypatch)
    driver.wake_up(store)
    driver.fall_asleep(store)
    with SeededSystem(6) as system:
        third = Driver(system, driver.folder, store, "third")
        third.submit(third.graph())
        third.services.close()

    driver.wake_up(store)
    for work in held:
        driver.system.schedule.execute(work)
    driver.system.run_until_idle()

    assert len(driver.job_masters()) == 2
    assert driver.stored_jobs() == [JOB]


def test_a_job_without_a_checkpoint_is_suspended_with_its_staged_output(driver: Driver, store: EmbeddedStore) -> None:
    driver.run(driver.graph(), slots=1)

    driver.fall_asleep(store)

    assert driver.data_plane.keeps_staged == [True]
    assert driver.stored_jobs() == [JOB]


def test_a_driver_that_loses_leadership_while_archiving_deletes_nothing(
    driver: Driver, second: Driver, store: EmbeddedStore
) -> None:
    driver.run(driver.graph(), slots=1)
    end = JobEnded(job_id=JOB, status=JobStatus.FINISHED)
    leader = driver.services.leader()
    assert leader is not None
    kept = driver.services.store(leader.leader_session_id)
    kept.put_result(end)
    driver.fall_asleep(store)

    with pytest.raises(LeadershipLostError):
        clean_up_job(kept, driver.data_plane, driver.graph(), end)

    assert driver.data_plane.keeps_staged == [True], "it was suspended, and released nothing since"
