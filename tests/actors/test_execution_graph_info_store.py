"""Read models of jobs answer queries about running and ended jobs."""

from __future__ import annotations

from flykka.actors.checkpoint_coordinator.actor import REPORT_INTERVAL_MS
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.checkpointing.statistics import CheckpointStatsCounts, CheckpointStatsSnapshot
from flykka.messages.control.job import JobFound, JobNotFound, JobStatus, ListeningBehaviour, TriggerSavepoint
from flykka.messages.monitoring.job_details import (
    CheckpointDetails,
    JobDetails,
    JobsOverview,
    RequestCheckpointDetails,
    RequestCheckpointStats,
    RequestJobDetails,
    RequestJobGraph,
    RequestJobsOverview,
    RequestJobVertexDetails,
    SubtasksOfVertex,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobId, JobVertexId
from tests.actors.drivers import Driver
from tests.actors.machines.graph.graphs import JOB, graph_of, vertex


def details(driver: Driver, job_id: JobId = JOB) -> JobDetails:
    asking = driver.client
    driver.job_manager.tell(RequestJobDetails(job_id=job_id, reply_to=asking))
    return driver.last(asking, JobDetails)


def test_a_job_without_listeners_can_be_queried(driver: Driver) -> None:
    driver.submit(driver.graph(), ListeningBehaviour.DETACHED)
    driver.bring_to_running("tm-1")

    answer = details(driver)

    assert answer.status is JobStatus.RUNNING
    assert [each.status for each in answer.timestamps] == [JobStatus.RUNNING]
    assert [vertex.state for vertex in answer.vertices] == [ExecutionState.RUNNING, ExecutionState.RUNNING]


def test_an_ended_job_can_be_queried(driver: Driver) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))

    assert details(driver).status is JobStatus.FINISHED


def test_an_unknown_job_has_no_details(driver: Driver) -> None:
    driver.job_manager.tell(RequestJobDetails(job_id=JobId("other"), reply_to=driver.client))

    assert driver.received(driver.client, JobNotFound) == [JobNotFound(job_id=JobId("other"))]


def test_restarts_are_counted_across_job_masters_and_job_managers(driver: Driver) -> None:
    driver.run(driver.graph(), slots=1)

    driver.system.kill(driver.registration.job_master)
    driver.bring_to_running("tm-2")
    driver.system.kill(driver.job_manager)
    driver.system.run_until_idle()
    driver.next_job_manager()
    driver.finish(driver.bring_to_running("tm-3"))

    answer = details(driver)
    assert (answer.status, answer.number_of_restarts) == (JobStatus.FINISHED, 1)


def test_a_job_that_ends_while_its_job_manager_is_killed_stays_ended(driver: Driver) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))

    driver.system.kill(driver.job_manager)
    driver.system.run_until_idle()
    driver.next_job_manager()

    assert details(driver).status is JobStatus.FINISHED


def test_a_refused_job_submitted_again_is_described_by_its_new_graph(driver: Driver) -> None:
    driver.data_plane.refusal = LookupError("no code")
    driver.submit(driver.graph())
    driver.data_plane.refusal = None

    driver.submit(graph_of(vertex("other")))

    assert [each.vertex_id for each in details(driver).vertices] == ["other"]


def test_all_details_of_a_job_are_reported(driver: Driver) -> None:
    graph = driver.graph()
    driver.run(graph, slots=1)
    asking = driver.client

    for request in (
        RequestJobsOverview(reply_to=asking),
        RequestJobGraph(job_id=JOB, reply_to=asking),
        RequestJobVertexDetails(job_id=JOB, reply_to=asking, vertex_id=JobVertexId("source")),
        RequestCheckpointStats(job_id=JOB, reply_to=asking),
        RequestCheckpointDetails(job_id=JOB, reply_to=asking, checkpoint_id=7),
    ):
        driver.job_manager.tell(request)

    [listed] = driver.last(asking, JobsOverview).jobs
    assert (listed.job_id, listed.status) == (JOB, JobStatus.RUNNING)
    assert driver.last(asking, JobFound).job_graph.vertices == graph.vertices
    [subtask] = driver.last(asking, SubtasksOfVertex).subtasks
    states = [ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.RUNNING]
    assert [each.state for each in subtask.current.timestamps] == states
    assert driver.last(asking, CheckpointStatsSnapshot).counts == CheckpointStatsCounts()
    assert driver.last(asking, CheckpointDetails) == CheckpointDetails(job_id=JOB, checkpoint=None)


def test_a_pending_checkpoint_lists_the_subtasks_that_have_acknowledged(driver: Driver) -> None:
    source, _ = driver.deployed(driver.run(driver.graph(), slots=1))
    driver.tell_job_master(TriggerSavepoint(job_id=JOB, client=driver.client, savepoint_directory=str(driver.folder)))

    driver.tell_job_master(AcknowledgeCheckpoint(job_id=JOB, attempt=source.attempt, checkpoint_id=1))
    driver.system.advance(REPORT_INTERVAL_MS)

    [pending] = details(driver).checkpoints_in_progress
    assert (pending.is_savepoint, pending.num_acknowledged_subtasks, pending.num_subtasks) == (True, 1, 2)
