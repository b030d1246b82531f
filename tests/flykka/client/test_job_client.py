"""Job events and results that a client receives, whatever happens to the job."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.client.job_client import JobClient
from flykka.client.job_execution_result import JobExecutionResult
from flykka.errors import (
    CheckpointError,
    JobCancellationError,
    JobCancelledError,
    JobExecutionError,
    JobRestoreError,
    JobStoppingError,
    JobSubmissionError,
    ProgramError,
)
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.job import (
    CancelJob,
    CancellationFailure,
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    RegisterJobClient,
    RegisterJobClientSuccess,
    ReportJobClientHeartbeat,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.graph.job_graph import ClientHeartbeatSettings
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from tests.flykka.client.client_cluster import BOOM, GRAPH, JOB, Answers, ClientCluster, accepted, checkpoint_completed

HEARTBEAT = ClientHeartbeatSettings(interval_ms=1_000, timeout_ms=3_000)


def test_a_client_submits_its_graph_and_waits_for_the_reply(cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(accepted())

    assert cluster.requests == [SubmitJob(job_graph=GRAPH, client=cluster.client_ref())]
    assert client.wait_submitted(timeout=0) == JOB


def test_a_finished_job_returns_its_result_with_its_duration(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.system.advance(1_500)

    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    assert client.wait(timeout=0) == JobExecutionResult(job_id=JOB, job_name="counts", net_runtime_ms=1_500)
    assert (client.status, client.exception(), client.done()) == (JobStatus.FINISHED, None, True)


def test_the_status_is_the_last_one_received(cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(JobStatusChanged(job_id=JOB, status=JobStatus.RESTARTING, timestamp_ms=0, cause=BOOM))

    assert client.status is JobStatus.RESTARTING
    assert not client.done()


def test_a_failed_job_raises_its_cause_for_every_waiter(cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=BOOM))

    with pytest.raises(JobExecutionError, match="job 'counts' failed: ValueError: boom") as first:
        client.wait(timeout=0)
    with pytest.raises(JobExecutionError) as second:
        client.wait(timeout=0)
    assert first.value is not second.value
    assert (first.value.cause, client.status) == (BOOM, JobStatus.FAILED)
    assert isinstance(client.exception(), JobExecutionError)


def test_a_cancelled_job_raises_a_cancellation_error(cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED))

    with pytest.raises(JobCancelledError, match="was cancelled"):
        client.wait(timeout=0)


def test_a_job_that_fails_before_its_acceptance_was_refused(cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(JobResultFailure(job_id=JOB, cause=BOOM))

    for wait in (client.wait_submitted, client.wait):
        with pytest.raises(JobSubmissionError, match="job 'counts' was refused: ValueError: boom"):
            wait(timeout=0)


def test_a_job_is_lost_if_its_job_manager_ends_without_a_successor(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted())

    cluster.system.kill(cluster.job_manager)
    cluster.system.advance(30_000)
    assert not client.done()
    cluster.system.advance(31_000)

    with pytest.raises(
        JobExecutionError, match="was lost with its cluster: ClusterLostError: the JobManager has ended"
    ):
        client.wait(timeout=0)


def test_a_client_reconnects_to_the_next_job_manager(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted())

    cluster.replace_job_manager()
    cluster.send(RegisterJobClientSuccess(job_id=JOB), JobResultSuccess(job_id=JOB))

    assert [type(each) for each in cluster.requests] == [SubmitJob, RegisterJobClient]
    assert client.wait(timeout=0).job_id == JOB


def test_an_unaccepted_job_is_submitted_again_to_the_next_job_manager(cluster: ClientCluster) -> None:
    cluster.submit()

    cluster.replace_job_manager()
    cluster.send(JobNotFound(job_id=JOB))

    assert [type(each) for each in cluster.requests] == [SubmitJob, RegisterJobClient, SubmitJob]


def test_a_job_unknown_to_the_next_job_manager_is_lost(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted())

    cluster.replace_job_manager()
    cluster.send(JobNotFound(job_id=JOB))

    with pytest.raises(JobExecutionError, match="its JobManager no longer knows it"):
        client.wait(timeout=0)


def test_a_known_failure_is_kept_if_the_job_manager_lost_the_job(cluster: ClientCluster) -> None:
    heard: list[Message] = []

    def write_flight_record() -> str:
        cluster.client_ref().tell(JobNotFound(job_id=JOB))
        return "/kept/flight-record.trace"

    client = JobClient(cluster.system, cluster.job_manager, GRAPH, write_flight_record=write_flight_record)
    client.add_listener(heard.append)
    cluster.system.run_until_idle()

    failed = JobResultFailure(job_id=JOB, cause=BOOM)
    cluster.send(accepted(), failed)
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match="job 'counts' failed: ValueError: boom") as failure:
        client.wait(timeout=0)
    assert failure.value.flight_record == "/kept/flight-record.trace"
    assert heard == [accepted(), failed]


def test_an_invalid_value_of_attached_is_refused(cluster: ClientCluster) -> None:
    with pytest.raises(ProgramError, match=r"attached must be True, False or one of DETACHED, EXECUTION_RESULT"):
        cluster.submit(attached="result")


def test_a_client_sends_heartbeats_until_its_job_has_ended() -> None:
    cluster = ClientCluster(job_graph=replace(GRAPH, client_heartbeat=HEARTBEAT))
    cluster.submit()
    cluster.send(accepted())

    cluster.system.advance(2_000)
    heartbeats = [message for message in cluster.requests if isinstance(message, ReportJobClientHeartbeat)]
    cluster.send(JobResultSuccess(job_id=JOB))
    cluster.system.advance(10_000)

    assert [heartbeat.expired_timestamp_ms - heartbeats[0].expired_timestamp_ms for heartbeat in heartbeats] == [
        0,
        1_000,
    ]
    assert [message for message in cluster.requests if isinstance(message, ReportJobClientHeartbeat)] == heartbeats


def test_a_cancellation_error_contains_its_reason(cluster: ClientCluster) -> None:
    client = cluster.submit()
    gone = SerializedThrowable(type_name="ClientHeartbeatTimeoutError", message="its client is gone")

    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=gone, status=JobStatus.CANCELED))

    with pytest.raises(JobCancelledError, match=r"job 'counts' was cancelled: its client is gone"):
        client.wait(timeout=0)


def test_an_earlier_result_is_marked_and_logged(cluster: ClientCluster, caplog: pytest.LogCaptureFixture) -> None:
    client = cluster.submit()

    cluster.send(accepted(), JobResultSuccess(job_id=JOB, is_earlier=True))

    assert client.wait(timeout=0).is_earlier
    assert "job 'counts' has finished earlier in this application" in caplog.text


def test_a_job_whose_cluster_is_shut_down_is_lost(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted())

    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match="was lost"):
        client.wait(timeout=0)
    assert client.status is JobStatus.FAILED
    with pytest.raises(JobCancellationError, match="was not cancelled: it is FAILED already"):
        client.cancel()


def test_the_error_of_a_lost_job_names_its_newest_checkpoint(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), checkpoint_completed(3), checkpoint_completed(4))

    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match="retained checkpoint: /kept/chk-4 "):
        client.wait(timeout=0)


def test_a_wait_that_times_out_reports_the_state_of_the_job(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0))

    with pytest.raises(TimeoutError, match="is still RUNNING after 2 seconds"):
        client.wait(timeout=2)


def test_cancellation_is_requested_from_the_job_manager(cluster: ClientCluster) -> None:
    client = cluster.submit()

    client.cancel()

    assert isinstance(cluster.requests[-1], CancelJob)


def test_an_unknown_job_cannot_be_cancelled() -> None:
    cluster = ClientCluster(answers=Answers(cancellation=CancellationFailure(job_id=JOB, cause=BOOM)))
    client = cluster.submit()

    with pytest.raises(JobCancellationError, match="boom"):
        client.cancel()


def test_a_stopped_job_returns_the_path_of_its_retained_checkpoint() -> None:
    cluster = ClientCluster(
        answers=Answers(stopping=StoppingSuccess(job_id=JOB, checkpoint_path="/checkpoints/job/chk-4"))
    )
    client = cluster.submit()

    path = client.stop()

    assert path == "/checkpoints/job/chk-4"
    assert client.wait(timeout=0).checkpoint_path == path


def test_a_stop_without_a_reported_end_times_out_with_the_path() -> None:
    stopped = StoppingSuccess(job_id=JOB, checkpoint_path="/checkpoints/job/chk-4")
    cluster = ClientCluster(answers=Answers(stopping=stopped, forgets=True))
    client = cluster.submit()

    with pytest.raises(TimeoutError, match="has stopped with /checkpoints/job/chk-4, but has not reported its end"):
        client.stop(timeout=2)


def test_a_stop_fails_if_the_job_continues() -> None:
    cluster = ClientCluster(answers=Answers(stopping=StoppingFailure(job_id=JOB, cause=BOOM)))
    client = cluster.submit()

    with pytest.raises(JobStoppingError, match=r"job 'counts' \(job\) was not stopped: boom"):
        client.stop()


def test_an_ended_job_cannot_be_stopped(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    with pytest.raises(JobStoppingError, match="was not stopped: it is FINISHED already"):
        client.stop()


def test_a_stop_times_out(cluster: ClientCluster) -> None:
    client = cluster.submit()

    with pytest.raises(TimeoutError, match=r"job 'counts' \(job\) has not stopped after 2 s"):
        client.stop(timeout=2)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
def test_an_error_names_the_retained_checkpoint(status: JobStatus, cluster: ClientCluster) -> None:
    client = cluster.submit()

    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=BOOM, status=status, checkpoint_path="/kept/chk-4"))

    with pytest.raises(JobExecutionError, match="retained checkpoint: /kept/chk-4 ") as failed:
        client.wait(timeout=0)
    assert failed.value.checkpoint_path == "/kept/chk-4"


def test_a_damaged_checkpoint_is_reported_with_an_earlier_valid_one(cluster: ClientCluster, tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    first, broken, last = (
        storage.write_metadata(
            CompletedCheckpoint(job_id=JOB, checkpoint_id=number, timestamp_ms=0, duration_ms=0, task_states=())
        )
        for number in (8, 9, 10)
    )
    Path(broken, "_metadata").write_bytes(b"broken")
    damage = SerializedThrowable(type_name="CheckpointFormatError", message="/state is damaged", suppress_restarts=True)
    client = cluster.submit()

    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=damage, checkpoint_path=last))
    cluster.system.run_until_idle()

    with pytest.raises(CheckpointError, match="CheckpointFormatError: /state is damaged") as failed:
        client.wait(timeout=0)
    assert isinstance(failed.value, JobRestoreError)
    assert f"an earlier checkpoint is undamaged: {first} (continue with" in str(failed.value)
    assert "retained checkpoint" not in str(failed.value)


def test_the_plan_is_available_before_anything_runs(cluster: ClientCluster) -> None:
    assert cluster.submit().job_graph == GRAPH


async def test_a_client_can_be_awaited(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    result = await asyncio.wait_for(_awaited(client), timeout=1)

    assert result.job_name == "counts"


async def test_an_awaited_client_raises_the_errors_of_wait(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=BOOM))

    with pytest.raises(JobExecutionError, match="failed: ValueError: boom"):
        await client


async def _awaited(client: JobClient) -> JobExecutionResult:
    return await client
