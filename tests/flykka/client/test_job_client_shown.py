"""A client's views of its job: its details, a table of its checkpoints, its text and its HTML."""

from __future__ import annotations

import pandas as pd
import pytest

from flykka.client.frames import checkpoint_frame, vertex_checkpoint_frame
from flykka.client.job_client import JobClient
from flykka.errors import JobExecutionError
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointTriggered,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control.job import (
    CheckpointAborted,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobSubmitSuccess,
    SubmitJob,
)
from flykka.messages.wire.ids import JobVertexId
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.flykka.client.client_cluster import BOOM, GRAPH, JOB, ClientCluster, accepted, checkpoint_completed


def test_the_checkpoint_table_has_one_row_per_checkpoint(cluster: ClientCluster) -> None:
    client = cluster.submit()
    aborted = CheckpointAborted(job_id=JOB, checkpoint_id=2, reason=CheckpointDeclineReason.EXPIRED, timestamp_ms=9_000)

    cluster.send(accepted(), checkpoint_completed(1), aborted)

    table = client.checkpoints
    assert table["checkpoint_id"].tolist() == [1, 2]
    assert table["status"].tolist() == ["COMPLETED", "FAILED"]
    assert table["reason"].tolist() == [None, "EXPIRED"]
    assert table["duration_ms"].isna().tolist() == [False, True]
    assert table["triggered"].isna().tolist() == [False, True]
    assert (table["ended"] - table["triggered"]).iloc[0] == pd.Timedelta(milliseconds=int(table["duration_ms"].iloc[0]))


def test_the_metrics_table_has_one_row_per_vertex(cluster: ClientCluster) -> None:
    client = cluster.submit()
    vertex_id = JobVertexId("v")
    acknowledged = tuple(
        SubtaskCheckpointStatistics(
            vertex_id=vertex_id,
            subtask=subtask,
            ack_ms=70,
            metrics=CheckpointMetrics(size_bytes=500, alignment_ms=alignment_ms),
        )
        for subtask, alignment_ms in enumerate((0, 9))
    )

    cluster.send(
        accepted(),
        CheckpointTriggered(job_id=JOB, checkpoint_id=1, timestamp_ms=0, num_subtasks=2),
        SubtasksAcknowledged(job_id=JOB, checkpoint_id=1, subtasks=acknowledged),
        checkpoint_completed(1),
        checkpoint_completed(2),
    )

    table = vertex_checkpoint_frame(client.details.checkpoints, {vertex_id: "counts"})
    [row] = table.to_dict("records")
    assert (row["checkpoint_id"], row["vertex"], row["subtasks"], row["size_bytes"]) == (1, "counts", 2, 1_000)
    assert (row["alignment_ms_avg"], row["alignment_ms_max"]) == (4, 9)


def test_an_empty_checkpoint_table_has_the_same_columns_and_types(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), checkpoint_completed(1))

    empty = checkpoint_frame([])

    assert empty.empty
    assert empty.dtypes.equals(client.checkpoints.dtypes)


def test_a_client_is_displayed_as_text_outside_a_notebook(
    cluster: ClientCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    client._ipython_display_()

    assert capsys.readouterr().out.startswith("job 'counts' FINISHED")


def test_a_client_renders_as_html_or_text_on_request(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultFailure(job_id=JOB, cause=BOOM))

    bundle = client._repr_mimebundle_()

    assert bundle.keys() == {"text/html", "text/plain"}
    assert "ValueError: boom" in bundle["text/html"]


def test_a_job_lost_with_its_cluster_is_shown_as_failed(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted())

    cluster.system.terminate()
    cluster.system.run_until_idle()

    assert client.details.status is JobStatus.FAILED
    assert isinstance(client.exception(), JobExecutionError)
    assert client.details.last_failure is not None
    assert client.details.last_failure.type_name == "ClusterLostError"


class SilentJobManager(Actor):
    def handle_message(self, message: Message) -> None:
        if isinstance(message, SubmitJob):
            message.client.tell(JobSubmitSuccess(job_id=JOB))


@pytest.mark.parametrize("attached", [True, False])
def test_the_last_job_details_are_shown_if_the_cluster_does_not_reply(*, attached: bool) -> None:
    with SeededSystem() as system:
        silent = system.spawn(Props(SilentJobManager), "job-manager")
        client = JobClient(system, silent, GRAPH, attached=attached)
        system.run_until_idle()

        while_silent = client.details.status
        system.kill(silent)

        assert (while_silent, client.details.status) == (JobStatus.CREATED, JobStatus.CREATED)
    assert client.details.name == "counts"
