"""Metrics in Prometheus's text format, with Flink's names and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from flykka.actors.execution_graph_info_store.actor import INFO_STORE_PATH
from flykka.messages.checkpointing.checkpoint import CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsCounts,
    CheckpointStatsSnapshot,
    CheckpointStatsStatus,
    CompletedCheckpointStatsSummary,
    StatsSummary,
    VertexCheckpointStatistics,
)
from flykka.messages.control.job import JobStatus, MetricsReported
from flykka.messages.monitoring.job_details import (
    AttemptDetails,
    Deploying,
    JobDetails,
    JobVertexDetails,
    StatusTimestamp,
    SubtaskCount,
    SubtaskDetails,
    TimeShares,
)
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot, AccumulatorType, HistogramCount
from flykka.messages.tasks.operator_event import OperatorCoordinatorMetricsReported
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import JobVertexId, OperatorId, TaskManagerId, attempt_id
from flykka.metrics.collection import Scope, fitting_scope
from flykka.metrics.measured import Distribution, Measured, Value, of_job, of_subtasks, of_vertices
from flykka.metrics.prometheus import text_of
from tests.flykka.rest.conftest import JOB, Served

pytestmark = pytest.mark.slow

VERTEX = JobVertexDetails(
    vertex_id=JobVertexId("v"),
    name="counts",
    parallelism=1,
    sources=(),
    sinks=("out",),
    state=ExecutionState.RUNNING,
    subtask_counts=(),
)
SUBTASK = SubtaskDetails(
    subtask=0,
    current=AttemptDetails(
        attempt=None,
        attempt_number=2,
        state=ExecutionState.RUNNING,
        task_manager=TaskManagerId("task-manager-1"),
        metrics=TaskIOMetrics(rows_in=5, watermark_ms=1_000, rows_staged=2, rows_published=3),
    ),
    shares=TimeShares(busy=0.5, back_pressured=0.25, idle=0.25),
    last_checkpoint=CheckpointMetrics(alignment_ms=3, start_delay_ms=2),
)
_COUNTER = AccumulatorSnapshot(
    name="parse it.orders.broken",
    type=AccumulatorType.LONG_COUNTER,
    count=4,
    operator_id=OperatorId("o"),
    operator_name="parse it",
)
COUNTED = (
    AccumulatorSnapshot(name="no metric", type=AccumulatorType.INT_COUNTER, count=1),
    _COUNTER,
    replace(_COUNTER, name="parse it.numLateRecordsDropped"),
    replace(_COUNTER, name="parse it.seen", type=AccumulatorType.METER, count=9, per_second=2.5),
    replace(
        _COUNTER,
        name="parse it.bytes",
        type=AccumulatorType.HISTOGRAM,
        counts=(HistogramCount(number=7, count=1), HistogramCount(number=1, count=2)),
    ),
)
TASK_ROWS = "flink_taskmanager_job_task_numRecordsIn"


def test_scraped_metrics_are_accepted_by_the_parser_of_prometheus(served: Served) -> None:
    answer = served.http.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    (running,) = families["flink_jobmanager_numRunningJobs"].samples
    rows = families["flink_taskmanager_job_task_numRecordsIn"].samples
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert running.value == 1
    assert {family.type for family in families.values()} == {"gauge"}
    assert {(sample.labels["task_name"], sample.labels["subtask_index"]) for sample in rows} == {
        ("source", "0"),
        ("sink", "0"),
        ("sink", "1"),
    }
    assert all(sample.labels["job_name"] == "a <job>" for sample in rows)


def test_the_metrics_table_of_a_client_contains_every_scraped_value(served: Served) -> None:
    scraped = text_string_to_metric_families(served.http.get("/metrics?scope=subtask").text)
    table = served.job.metrics

    names = "flink_" + table["scope"] + "_" + table["name"].str.replace(".", "_")
    texts = table[["vertex", "operator", "subtask"]].astype("string").astype("object").replace({pd.NA: None})
    rows = zip(names, texts["vertex"], texts["operator"], texts["subtask"], table["value"], strict=True)
    assert {row for row in rows if _is_constant(row[0])} == {
        (
            sample.name,
            *(sample.labels.get(label) for label in ("task_name", "operator_name", "subtask_index")),
            sample.value,
        )
        for family in scraped
        for sample in family.samples
        if sample.name.startswith(("flink_jobmanager_job_", "flink_taskmanager_")) and _is_constant(sample.name)
    }


def test_a_name_with_quotes_is_escaped() -> None:
    text = text_of([Measured("jobmanager_job", {"job_name": 'a "b"\n\\c'}, {"of it\n": 7})])

    ((sample,),) = (family.samples for family in text_string_to_metric_families(text))
    assert (sample.name, sample.labels) == ("flink_jobmanager_job_of_it_", {"job_name": 'a "b"\n\\c'})


@pytest.mark.parametrize("value", [1, 0.5, -(2**63), inf, -inf])
def test_a_scraped_number_equals_the_written_value(value: float) -> None:
    ((sample,),) = (family.samples for family in text_string_to_metric_families(_text({"uptime": value})))

    assert sample.value == value


def test_a_histogram_is_a_summary_with_flinks_quantiles() -> None:
    text = _text({"bytes": Distribution(tuple(range(1, 1_001)), (1,) * 1_000)})

    (family,) = text_string_to_metric_families(text)
    assert family.type == "summary"
    assert {sample.labels.get("quantile", sample.name): sample.value for sample in family.samples} == {
        "0.5": 500,
        "0.75": 750,
        "0.95": 950,
        "0.98": 980,
        "0.99": 990,
        "0.999": 999,
        "flink_jobmanager_job_bytes_count": 1_000,
        "flink_jobmanager_job_bytes_sum": 500_500,
    }


def test_an_empty_histogram_has_zeros() -> None:
    figures = Distribution((), ()).figures

    assert set(figures.values()) == {0}


def test_the_statistics_of_a_histogram_equal_those_of_flink() -> None:
    assert Distribution((1, 5), (1, 3)).figures == {
        "count": 4,
        "min": 1,
        "max": 5,
        "mean": 4,
        "stddev": pytest.approx(3**0.5),
        "median": 5,
        "p75": 5,
        "p90": 5,
        "p95": 5,
        "p98": 5,
        "p99": 5,
        "p999": 5,
    }


def test_a_restarting_job_has_no_uptime(served: Served) -> None:
    ran = StatusTimestamp(status=JobStatus.RUNNING, at_ms=100, total_ms=40)
    running = replace(served.job.details, status=JobStatus.RUNNING, timestamps=(ran,))
    restarting = replace(
        running,
        status=JobStatus.RESTARTING,
        timestamps=(replace(ran, total_ms=340), StatusTimestamp(status=JobStatus.RESTARTING, at_ms=400, total_ms=50)),
        number_of_restarts=1,
        restored_ms=90,
        deploying=Deploying(since_ms=590, total_ms=3),
    )

    assert _select_values(running, "uptime", "runningTime", "runningTimeTotal", "runningState") == (500, 500, 540, 1)
    assert _select_values(restarting, "uptime", "runningTime", "runningTimeTotal", "runningState") == (-1, 0, 340, 0)
    assert _select_values(restarting, "restartingTime", "restartingTimeTotal", "restartingState") == (200, 250, 1)
    assert _select_values(restarting, "deployingTime", "deployingTimeTotal", "deployingState") == (10, 13, 1)
    assert _select_values(restarting, "numRestarts", "fullRestarts", "failingTimeTotal") == (1, 1, 0)
    assert _select_values(restarting, "lastCheckpointDuration", "lastCheckpointSize", "lastCheckpointFullSize") == (
        30,
        7,
        9,
    )
    assert _select_values(restarting, "lastCheckpointRestoreTimestamp") == (90,)


def _select_values(details: JobDetails, *names: str) -> tuple[Value, ...]:
    values = of_job(details, _checkpoints(), "host", 600).values
    return tuple(values[name] for name in names)


def test_sources_and_sinks_have_additional_metrics(served: Served) -> None:
    def names(vertex: JobVertexDetails) -> set[str]:
        details = replace(served.job.details, vertices=(vertex,))
        as_a_whole = _values(*of_vertices(details, "host"))
        one_by_one = _values(*of_subtasks(details, vertex, [SUBTASK], "host", 4_000))
        own = {"unassignedSplits", "pendingCommittables"}
        assert own & as_a_whole.keys() == own & one_by_one.keys()
        return own & as_a_whole.keys()

    assert names(replace(VERTEX, sinks=())) == set()
    assert names(VERTEX) == {"pendingCommittables"}
    assert names(replace(VERTEX, sources=("in",), sinks=())) == {"unassignedSplits"}


def test_metrics_of_a_subtask_have_labels_of_attempt_and_task_manager(served: Served) -> None:
    measured = list(of_subtasks(served.job.details, VERTEX, [SUBTASK], "host", 4_000))

    values = _values(*measured)
    assert (values["busyTimeMsPerSecond"], values["backPressuredTimeMsPerSecond"]) == (500, 250)
    assert (values["watermarkLag"], values["pendingCommittables"], values["totalCommittables"]) == (3_000, 2, 5)
    assert (values["checkpointAlignmentTime"], values["checkpointStartDelayNanos"]) == (3_000_000, 2_000_000)
    assert measured[0].labels["tm_id"] == "task-manager-1"
    assert measured[0].labels["task_attempt_num"] == "2"


def test_user_metrics_have_the_labels_of_their_operators(served: Served) -> None:
    subtask = replace(SUBTASK, accumulators=COUNTED)

    *_, counter, meter, histogram = of_subtasks(served.job.details, VERTEX, [subtask], "host", 4_000)

    assert counter.labels["operator_id"] == "o"
    assert counter.labels["operator_name"] == "parse it"
    assert counter.labels["subtask_index"] == "0"
    assert counter.values == {"orders.broken": 4}
    assert meter.values == {"seen": 2.5, "seen_count": 9}
    assert histogram.values == {"bytes": Distribution((1, 7), (2, 1))}
    assert 'flink_taskmanager_job_task_operator_orders_broken{host="host",' in text_of([counter])


def test_vertex_metrics_have_no_subtask_labels_and_no_user_rates(served: Served) -> None:
    accumulators = AccumulatorResults(merged=COUNTED)
    details = replace(served.job.details, vertices=(replace(VERTEX, rows_in=7),), accumulators=accumulators)
    nothing, delays = StatsSummary(minimum=0, maximum=0, average=0), StatsSummary(minimum=1, maximum=9, average=4)
    of_vertex = VertexCheckpointStatistics(
        vertex_id=VERTEX.vertex_id,
        parallelism=1,
        acknowledged=1,
        duration_ms=0,
        size_bytes=0,
        incremental_bytes=0,
        processed_bytes=0,
        persisted_bytes=0,
        start_delay_ms=delays,
        alignment_ms=nothing,
        sync_ms=nothing,
        async_ms=nothing,
    )
    last = CheckpointStatistics(checkpoint_id=1, status=CheckpointStatsStatus.COMPLETED, vertices=(of_vertex,))
    details = replace(details, last_completed=last)

    task, _, counter, meter, _ = of_vertices(details, "host")

    assert (task.values["numRecordsIn"], task.values["checkpointStartDelayNanos"]) == (7, 9_000_000)
    assert list(task.labels) == ["host", "job_id", "job_name", "task_id", "task_name"]
    assert (counter.values, meter.values) == ({"orders.broken": 4}, {"seen_count": 9})


def test_above_a_thousand_subtasks_metrics_are_per_vertex_by_default(served: Served) -> None:
    (job,) = served.gateway.jobs()
    running = replace(job, subtask_counts=(SubtaskCount(state=ExecutionState.RUNNING, count=600),))

    assert fitting_scope((running,)) is Scope.SUBTASK
    assert fitting_scope((running, running)) is Scope.VERTEX
    assert fitting_scope((running, replace(running, status=JobStatus.FINISHED))) is Scope.SUBTASK


@pytest.mark.parametrize(
    ("scope", "names", "label"),
    [
        ("job", {"flink_jobmanager_job_numRestarts"}, None),
        ("vertex", {"flink_jobmanager_job_numRestarts", TASK_ROWS}, "task_name"),
        ("subtask", {"flink_jobmanager_job_numRestarts", TASK_ROWS}, "subtask_index"),
    ],
)
def test_a_metrics_scope_may_be_requested(served: Served, scope: str, names: set[str], label: str | None) -> None:
    text = served.http.get(f"/metrics?scope={scope}").text

    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert names <= families.keys()
    assert (TASK_ROWS in families) == (label is not None)
    if label is not None:
        assert all(label in sample.labels for sample in families[TASK_ROWS].samples)
        assert len(families[TASK_ROWS].samples) == (3 if scope == "subtask" else 2)


def test_an_unknown_metrics_scope_is_refused(served: Served) -> None:
    answer = served.http.get("/metrics?scope=all")

    assert (answer.status_code, answer.json()) == (
        400,
        {"errors": ["there is no scope 'all'; there are job, vertex, subtask"]},
    )


def _text(values: dict[str, Value]) -> str:
    return text_of([Measured("jobmanager_job", {"job_name": "j"}, values)])


def _values(*measured: Measured) -> Mapping[str, Value]:
    return {name: value for each in measured for name, value in each.values.items()}


def _checkpoints() -> CheckpointStatsSnapshot:
    nothing = StatsSummary(minimum=0, maximum=0, average=0)
    last = CheckpointStatistics(
        checkpoint_id=4,
        status=CheckpointStatsStatus.COMPLETED,
        duration_ms=30,
        size_bytes=9,
        incremental_bytes=7,
    )
    return CheckpointStatsSnapshot(
        job_id=JOB,
        counts=CheckpointStatsCounts(total=4, completed=4),
        summary=CompletedCheckpointStatsSummary(
            duration_ms=nothing,
            size_bytes=nothing,
            incremental_bytes=nothing,
            processed_bytes=nothing,
            persisted_bytes=nothing,
        ),
        history=(),
        latest_completed=last,
    )


def _is_constant(name: str) -> bool:
    return "Time" not in name and name != "flink_jobmanager_job_uptime"


def test_user_metrics_are_reported_for_a_vertex_and_its_subtasks(served: Served) -> None:
    path = f"/jobs/{JOB}/vertices/sink"
    (store,) = served.gateway._system.actor_selection(INFO_STORE_PATH).resolve()
    for subtask, count in ((0, 1), (1, 4)):
        store.tell(
            MetricsReported(
                job_id=JOB,
                attempt=attempt_id(JOB, JobVertexId("sink"), subtask, 0),
                task_name="sink",
                metrics=TaskIOMetrics(),
                accumulators=(replace(_COUNTER, count=count),),
            )
        )

    of_vertex = served.http.get(f"{path}/accumulators").json()["user-accumulators"]
    of_subtasks = served.http.get(f"{path}/subtasks/accumulators").json()["subtasks"]
    metrics = served.http.get(f"{path}/metrics?get=1.parse_it.orders.broken").json()

    name = "parse it.orders.broken"
    assert of_vertex == [{"name": name, "type": "LongCounter", "value": "5"}]
    assert [each["user-accumulators"][0]["value"] for each in of_subtasks] == ["1", "4"]
    assert metrics == [{"id": "1.parse_it.orders.broken", "value": "4"}]


def test_user_metrics_of_a_coordinator_are_reported_by_name(served: Served) -> None:
    path = f"/jobs/{JOB}/vertices/sink/jm-operator-metrics"
    (store,) = served.gateway._system.actor_selection(INFO_STORE_PATH).resolve()
    assert served.http.get(path).json() == []
    given, rate = (
        AccumulatorSnapshot(
            name=f"number rows.{name}", type=kind, count=3, operator_id=OperatorId("o"), operator_name="number rows"
        )
        for name, kind in (("given", AccumulatorType.LONG_COUNTER), ("asked", AccumulatorType.METER))
    )
    store.tell(
        OperatorCoordinatorMetricsReported(
            job_id=JOB, vertex_id=JobVertexId("sink"), operator_id=OperatorId("o"), metrics=(given, rate)
        )
    )

    named = served.http.get(path).json()
    measured = served.http.get(f"{path}?get=number_rows.given,unknown").json()

    assert named == [{"id": "number_rows.given"}, {"id": "number_rows.asked_count"}]
    assert measured == [{"id": "number_rows.given", "value": "3"}]
