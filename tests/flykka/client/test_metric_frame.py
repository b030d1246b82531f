"""The metrics of a job as a table: one row per value, with its subtask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import pytest

from flykka.client.frames import metric_frame
from flykka.errors import ClusterError
from flykka.messages.control.job import ExecutionStateChanged, MetricsReported
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType, HistogramCount
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import OperatorId, TaskManagerId, attempt_id
from tests.flykka.client.client_cluster import ClientCluster, accepted, checkpoint_completed
from tests.flykka.client.one_job import GRAPH, JOB, WINDOWS

SIZES = AccumulatorSnapshot(
    name="parse.sizes",
    type=AccumulatorType.HISTOGRAM,
    operator_id=OperatorId("parse"),
    operator_name="parse",
    counts=(HistogramCount(number=7, count=3),),
)
NAME = next(vertex.name for vertex in GRAPH.vertices if vertex.vertex_id == WINDOWS)


@pytest.fixture
def cluster() -> Iterator[ClientCluster]:
    made = ClientCluster(job_graph=GRAPH)
    yield made
    made.system.terminate()
    made.system.run_until_idle()


def test_a_row_names_the_subtask_and_attempt_of_its_value(cluster: ClientCluster) -> None:
    client = cluster.submit()
    attempt = attempt_id(JOB, WINDOWS, 1, 2)
    state = ExecutionStateChanged(
        job_id=JOB,
        attempt=attempt,
        state=ExecutionState.RUNNING,
        timestamp_ms=0,
        task_name="windows",
        task_manager=TaskManagerId("task-manager-1"),
    )
    report = MetricsReported(
        job_id=JOB, attempt=attempt, task_name="windows", metrics=TaskIOMetrics(rows_in=5), accumulators=(SIZES,)
    )
    cluster.send(accepted(), state, report)

    table = client.metrics
    second = {row["name"]: row for row in table[table["subtask"] == 1].to_dict("records")}
    assert second["numRecordsIn"] == {
        "at": pd.Timestamp(cluster.system.clock.now_ms(), unit="ms", tz="UTC"),
        "scope": "taskmanager_job_task",
        "name": "numRecordsIn",
        "vertex": NAME,
        "operator": None,
        "subtask": 1,
        "task_manager": "task-manager-1",
        "attempt": 2,
        "value": 5.0,
    }
    median = second["sizes_median"]
    assert (median["scope"], median["operator"], median["value"]) == ("taskmanager_job_task_operator", "parse", 7.0)


def test_metrics_of_the_job_have_no_subtask(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), *(replace(checkpoint_completed(number), job_id=JOB) for number in (1, 2)))

    table = client.metrics.set_index("name")

    row = table.loc["numberOfCompletedCheckpoints"]
    assert (row["scope"], row["value"]) == ("jobmanager_job", 2.0)
    assert row[["vertex", "subtask", "task_manager", "attempt"]].isna().all()


def test_an_empty_table_has_the_same_columns_and_types(cluster: ClientCluster) -> None:
    client = cluster.submit()

    empty = metric_frame([], at_ms=0)

    assert empty.empty
    assert empty.dtypes.equals(client.metrics.dtypes)


def test_metrics_are_empty_without_a_cluster(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(ClusterError, match=r"no more information about job .* its cluster was shut down"):
        client.metrics  # noqa: B018
