"""Heartbeats of the client keep an attached job running; without them the job is cancelled with a reason."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.control.job import (
    JobClientHeartbeatAccepted,
    JobNotFound,
    JobResultFailure,
    JobStatus,
    ReportJobClientHeartbeat,
)
from flykka.messages.graph.job_graph import (
    ClientHeartbeatSettings,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
)
from flykka.messages.monitoring.exception_history import ExceptionHistoryChanged, FailureOutcome
from flykka.messages.tasks.task import CancelTask, ExecutionState
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB, failure

TIMEOUT_MS = 3_000
WHY = "the client of job 'job' has sent no heartbeat for 3000 ms, and the job must end with its client"


def attached(cluster: JobCluster) -> JobGraph:
    # The probe in place of the TaskManager sends no heartbeats, and must not be considered lost.
    heartbeat = ClientHeartbeatSettings(interval_ms=1_000, timeout_ms=TIMEOUT_MS)
    return replace(cluster.graph(), client_heartbeat=heartbeat, heartbeat_timeout_ms=600_000)


def give_sign_of_life(cluster: JobCluster) -> None:
    expires_ms = cluster.system.clock.now_ms() + TIMEOUT_MS
    heartbeat = ReportJobClientHeartbeat(job_id=JOB, expired_timestamp_ms=expires_ms, reply_to=cluster.client)
    cluster.tell(cluster.job_manager, heartbeat)


def test_a_job_with_a_silent_client_is_cancelled_with_a_reason(cluster: JobCluster) -> None:
    task_manager = cluster.run(attached(cluster), slots=1)

    cluster.system.advance(TIMEOUT_MS)
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    assert cluster.statuses()[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]
    result = cluster.last(cluster.client, JobResultFailure)
    assert result.status is JobStatus.CANCELED
    assert (result.cause.type_name, result.cause.message) == ("ClientHeartbeatTimeoutError", WHY)
    entry = cluster.last(cluster.client, ExceptionHistoryChanged).entry
    assert (entry.root.cause, entry.outcome) == (result.cause, FailureOutcome.CANCELED)


def test_a_job_continues_while_its_client_sends_heartbeats(cluster: JobCluster) -> None:
    cluster.run(attached(cluster), slots=1)

    for _ in range(5):
        cluster.system.advance(TIMEOUT_MS - 1)
        give_sign_of_life(cluster)

    assert cluster.statuses()[-1] is JobStatus.RUNNING
    assert len(cluster.received(cluster.client, JobClientHeartbeatAccepted)) == 5


def test_a_detached_job_does_not_end_with_its_client(cluster: JobCluster) -> None:
    cluster.run(replace(attached(cluster), client_heartbeat=None), slots=1)

    cluster.system.advance(10 * TIMEOUT_MS)

    assert cluster.statuses()[-1] is JobStatus.RUNNING


def test_a_client_is_monitored_from_its_first_heartbeat(cluster: JobCluster) -> None:
    cluster.run(replace(attached(cluster), client_heartbeat=None), slots=1)
    give_sign_of_life(cluster)

    cluster.system.advance(TIMEOUT_MS)

    assert cluster.statuses()[-1] is JobStatus.CANCELLING


def test_a_restarting_job_with_a_silent_client_is_cancelled_at_once(cluster: JobCluster) -> None:
    much_later = FixedDelayRestartStrategyConfiguration(delay_ms=10 * TIMEOUT_MS)
    job_graph = replace(attached(cluster), restart_strategy=much_later, failover_strategy=FailoverStrategyKind.FULL)
    task_manager = cluster.run(job_graph, slots=1)
    for descriptor in cluster.deployed(task_manager):
        cluster.report(descriptor.attempt, ExecutionState.FAILED, failure("boom"))

    cluster.system.advance(TIMEOUT_MS)

    assert cluster.statuses()[-2:] == [JobStatus.RESTARTING, JobStatus.CANCELED]
    entries = [changed.entry for changed in cluster.received(cluster.client, ExceptionHistoryChanged)]
    ends = {entry.root.cause.message: entry.outcome for entry in entries}
    assert ends == {"boom": FailureOutcome.CANCELED, WHY: FailureOutcome.CANCELED}


def test_a_heartbeat_for_an_unknown_job_is_answered_with_an_error(cluster: JobCluster) -> None:
    give_sign_of_life(cluster)

    assert cluster.received(cluster.client, JobNotFound) == [JobNotFound(job_id=JOB)]


def test_a_new_job_manager_restarts_the_client_timeout(cluster: JobCluster) -> None:
    cluster.run(attached(cluster), slots=1)
    cluster.system.advance(TIMEOUT_MS - 1)

    cluster.kill("job-manager")
    cluster.next_job_manager()
    cluster.system.advance(TIMEOUT_MS - 1)
    began = cluster.statuses()
    give_sign_of_life(cluster)

    assert JobStatus.CANCELED not in began
    assert cluster.received(cluster.client, JobClientHeartbeatAccepted)
