"""Runs, job graphs and results that a driver recovers from its predecessor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import LeadershipLostError
from flykka.messages.control.high_availability import ApplicationRun, CheckpointPointer, SubmittedJobGraph
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded
from flykka.messages.wire.ids import JobId
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.high_availability.contenders import lead
from tests.flykka.cluster.high_availability.places import Place

JOB = JobId("7f3a")


def submitted(job_id: str = JOB, restore_path: str | None = None) -> SubmittedJobGraph:
    graph = replace(graph_of(vertex("read")), job_id=JobId(job_id))
    return SubmittedJobGraph(job_graph=graph, restore_path=restore_path, allow_non_restored_state=True)


def test_a_run_continues_until_it_is_concluded(place: Place) -> None:
    first, second = place.services(), place.services()
    nothing = second.last_run()
    run = lead(first).run()
    first.close()

    taken_over = lead(second)

    assert nothing is None
    assert taken_over.run() == run
    assert second.last_run() == ApplicationRun(run_id=run)


def test_a_run_started_after_a_concluded_one_has_a_new_id(place: Place) -> None:
    services = place.services()
    store = lead(services)
    first = store.run()

    store.conclude_run(first)
    concluded = services.last_run()

    assert concluded == ApplicationRun(run_id=first, is_concluded=True)
    assert store.run() != first


def test_a_paused_driver_cannot_conclude_an_ended_run(place: Place) -> None:
    store = lead(place.services())
    first = store.run()
    store.conclude_run(first)
    second = store.run()

    store.conclude_run(first)

    assert store.run() == second


def test_the_next_leader_finds_submitted_jobs(place: Place) -> None:
    first = place.services()
    jobs = submitted("a", "/savepoints/1"), submitted("b")
    store = lead(first)
    for job in reversed(jobs):
        store.put_job(job)
    first.close()

    assert lead(place.services()).jobs() == jobs


def test_a_concurrent_change_of_a_job_is_applied_to_the_stored_state(place: Place) -> None:
    store = lead(place.services())
    store.put_job(submitted())

    def change(kept: SubmittedJobGraph) -> SubmittedJobGraph:
        if kept.starts == 0:
            store.put_job(replace(kept, starts=1))
        return replace(kept, driver="other")

    store.change_job(JOB, change)
    store.change_job(JobId("nobody's"), change)

    assert store.jobs() == (replace(submitted(), starts=1, driver="other"),)


def test_an_archived_job_is_deleted_except_for_its_result(place: Place) -> None:
    store = lead(place.services())
    store.put_job(submitted())
    checkpoints = store.checkpoints(JOB)
    first = checkpoints.recover("coordinator", 1).first_id
    checkpoints.add("coordinator", CheckpointPointer(checkpoint_id=first, path="/chk-1"))
    end = JobEnded(job_id=JOB, status=JobStatus.FINISHED, checkpoint_path="/chk-1")
    store.put_result(end)

    store.remove_job(JOB)

    assert store.jobs() == ()
    assert store.checkpoints(JOB).recover("nobody", 1).completed == ()
    assert store.result(JOB) == end


def test_the_next_leader_reads_a_result_until_a_new_run_starts(place: Place) -> None:
    first = place.services()
    store = lead(first)
    run = store.run()
    end = JobEnded(job_id=JOB, status=JobStatus.CANCELED)
    store.put_result(end)
    store.conclude_run(run)
    first.close()

    store = lead(place.services())
    before = store.result(JOB)
    store.run()

    assert before == end
    assert store.result(JOB) is None


def test_a_later_result_with_more_details_replaces_the_earlier_one(place: Place) -> None:
    store = lead(place.services())
    store.put_result(JobEnded(job_id=JOB, status=JobStatus.FINISHED))

    known = JobEnded(job_id=JOB, status=JobStatus.FINISHED, checkpoint_path="/chk-3")
    store.put_result(known)

    assert store.result(JOB) == known


def test_the_next_run_does_not_recover_jobs_of_a_concluded_one(place: Place) -> None:
    store = lead(place.services())
    run = store.run()
    store.put_job(submitted())
    store.conclude_run(run)

    store.run()

    assert store.jobs() == ()


def test_a_job_name_may_be_invalid_as_a_file_name(place: Place) -> None:
    store = lead(place.services())
    odd = submitted("../a/b c:%2F")

    store.put_job(odd)
    store.put_result(JobEnded(job_id=odd.job_graph.job_id, status=JobStatus.FINISHED))
    found = store.jobs()
    result = store.result(odd.job_graph.job_id)
    store.conclude_run(store.run())
    store.run()

    assert found == (odd,)
    assert result is not None
    assert store.jobs() == ()
    assert store.result(odd.job_graph.job_id) is None


def test_a_former_leader_can_neither_store_nor_delete_a_job(place: Place) -> None:
    services = place.services()
    before = lead(services)
    before.put_job(submitted("kept"))
    lead(services)

    for late in (
        lambda: before.put_job(submitted("late")),
        lambda: before.remove_job(JobId("kept")),
        lambda: before.put_result(JobEnded(job_id=JobId("kept"), status=JobStatus.FINISHED)),
    ):
        with pytest.raises(LeadershipLostError):
            late()

    assert before.jobs() == (submitted("kept"),)
    assert before.result(JobId("kept")) is None
