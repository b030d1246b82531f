"""Running a cell again ends the cell's earlier job: with a checkpoint if the job can be stopped, otherwise without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.api.notebook_cells import end_job
from flykka.client.job_client import JobClient
from flykka.messages.control.job import CancelJob, StopJob, StoppingFailure, StoppingSuccess
from flykka.messages.graph.job_graph import JobType
from tests.flykka.client.client_cluster import BOOM, GRAPH, JOB, Answers, ClientCluster


def test_a_job_is_stopped_with_a_checkpoint_and_not_cancelled(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ClientCluster(
        answers=Answers(stopping=StoppingSuccess(job_id=JOB, checkpoint_path="/checkpoints/job/chk-4"))
    )
    client = cluster.submit()

    end_job(client, timeout=2)

    assert client.done()
    assert [type(request) for request in cluster.requests[1:]] == [StopJob]
    assert capsys.readouterr().out == "job 'counts' (job) still ran: stopping it with a checkpoint\n"


@pytest.mark.parametrize("answer", [StoppingFailure(job_id=JOB, cause=BOOM), None], ids=["refused", "too slow"])
def test_a_job_that_cannot_be_stopped_is_cancelled_with_a_message(
    answer: StoppingFailure | None, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ClientCluster(answers=Answers(stopping=answer))
    client = cluster.submit()

    # No message reports the end of the job.
    with pytest.raises(TimeoutError, match="after 2 seconds"):
        end_job(client, timeout=2)

    assert [type(request) for request in cluster.requests[1:]] == [StopJob, CancelJob]
    assert capsys.readouterr().out.endswith("; cancelling it\n")


def test_a_batch_job_is_ended_without_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ClientCluster()
    client = JobClient(cluster.system, cluster.job_manager, replace(GRAPH, job_type=JobType.BATCH))
    cluster.system.run_until_idle()

    with pytest.raises(TimeoutError, match="after 2 seconds"):
        end_job(client, timeout=2)

    assert [type(request) for request in cluster.requests[1:]] == [CancelJob]
    assert "still ran: cancelling it" in capsys.readouterr().out
