"""Responses about checkpoints, watermarks and failures, for jobs in every state that Flink's dashboard draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure, CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsCounts,
    CheckpointStatsSnapshot,
    CheckpointStatsStatus,
    CompletedCheckpointStatsSummary,
    StatsSummary,
    SubtaskCheckpointStatistics,
    VertexCheckpointStatistics,
)
from flykka.messages.monitoring.exception_history import ExceptionHistoryEntry, FailureLabel, RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import AttemptDetails, SubtaskDetails
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.errors import RestError
from flykka.rest.handlers.jobs import exception_history, label_filter
from flykka.rest.responses.checkpoints import checkpoint_details, checkpointing_statistics, subtask_details
from flykka.rest.responses.vertices import watermarks
from tests.actors.machines.graph.graphs import vertex
from tests.flykka.rest.conftest import JOB

SOURCE, SINK = vertex("source", outputs=1), vertex("sink", 2, reads=("source",))
_NOTHING = StatsSummary(minimum=0, maximum=0, average=0)
_ABORTED = CheckpointStatistics(
    checkpoint_id=3,
    status=CheckpointStatsStatus.FAILED,
    trigger_ms=1_000,
    ended_ms=9_000,
    num_subtasks=3,
    num_acknowledged_subtasks=1,
)


def test_a_failed_checkpoint_message_has_its_cause_task_and_task_manager() -> None:
    failure = CheckpointFailure(
        reason=CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
        cause=SerializedThrowable(type_name="DiskFullError", message="No space left on device\nat app.py"),
        task_name="sink (1/2)",
        task_manager="taskmanager-1",
    )

    details = checkpoint_details(replace(_ABORTED, reason=failure.reason, failure=failure), [], [SOURCE, SINK])

    assert details["failure_message"] == (
        "CHECKPOINT_ASYNC_EXCEPTION at sink (1/2) on taskmanager-1: DiskFullError: No space left on device"
    )


def acknowledged_subtask(name: str, ack_ms: int) -> SubtaskCheckpointStatistics:
    return SubtaskCheckpointStatistics(
        vertex_id=JobVertexId(name),
        subtask=0,
        ack_ms=ack_ms,
        metrics=CheckpointMetrics(size_bytes=50, incremental_bytes=20),
    )


def test_an_aborted_checkpoint_lists_every_vertex_with_its_acknowledgements() -> None:
    tasks = checkpoint_details(_ABORTED, [acknowledged_subtask("sink", 1_200)], [SOURCE, SINK])["tasks"]

    assert tasks.keys() == {"source", "sink"}
    counted = ("num_acknowledged_subtasks", "num_subtasks", "latest_ack_timestamp", "end_to_end_duration", "state_size")
    assert [tasks["sink"][figure] for figure in counted] == [1, 2, 1_200, 200, 50]
    assert [tasks["source"][figure] for figure in counted] == [0, 1, -1, -1, 0]


def test_unacknowledged_subtasks_of_an_aborted_checkpoint_are_pending() -> None:
    response = subtask_details(_ABORTED, [acknowledged_subtask("sink", 1_200)], SINK)

    assert (response["num_acknowledged_subtasks"], response["num_subtasks"]) == (1, 2)
    assert [each["status"] for each in response["subtasks"]] == ["completed", "pending"]


def test_a_completed_checkpoint_retains_its_totals() -> None:
    kept = VertexCheckpointStatistics(
        vertex_id=SINK.vertex_id,
        parallelism=2,
        acknowledged=2,
        duration_ms=70,
        size_bytes=900,
        incremental_bytes=90,
        processed_bytes=0,
        persisted_bytes=0,
        start_delay_ms=_NOTHING,
        alignment_ms=_NOTHING,
        sync_ms=_NOTHING,
        async_ms=_NOTHING,
    )
    completed = replace(_ABORTED, status=CheckpointStatsStatus.COMPLETED, vertices=(kept,))

    sink = checkpoint_details(completed, [], [SINK])["tasks"]["sink"]

    assert (sink["num_acknowledged_subtasks"], sink["latest_ack_timestamp"], sink["state_size"]) == (2, 1_070, 900)


def test_expired_subtasks_of_a_checkpoint_are_not_reported_as_pending() -> None:
    nobody_yet = replace(_ABORTED, status=CheckpointStatsStatus.IN_PROGRESS, num_acknowledged_subtasks=0)

    assert subtask_details(_ABORTED, [], SINK)["subtasks"] == []
    assert [each["status"] for each in subtask_details(nobody_yet, [], SINK)["subtasks"]] == ["pending", "pending"]


def test_the_restored_checkpoint_has_its_restore_time() -> None:
    completed = replace(_ABORTED, status=CheckpointStatsStatus.COMPLETED, path="/chk-3")
    stats = CheckpointStatsSnapshot(
        job_id=JOB,
        counts=CheckpointStatsCounts(total=2, completed=1, failed=1, restored=1),
        summary=CompletedCheckpointStatsSummary(
            duration_ms=_NOTHING,
            size_bytes=_NOTHING,
            incremental_bytes=_NOTHING,
            processed_bytes=_NOTHING,
            persisted_bytes=_NOTHING,
        ),
        history=(replace(_ABORTED, checkpoint_id=4), completed),
        latest_restored=3,
    )

    response = checkpointing_statistics(stats, restored_ms=12_000, listed=10)

    assert response["latest"]["restored"] == {
        "id": 3,
        "restore_timestamp": 12_000,
        "is_savepoint": False,
        "external_path": "/chk-3",
    }
    assert [each["latest_ack_timestamp"] for each in response["history"]] == [-1, 9_000]


def test_a_subtask_at_the_end_of_its_input_has_no_watermark() -> None:
    subtasks = [subtask(number, at) for number, at in enumerate((None, 1_500, WATERMARK_MAX))]

    assert watermarks(subtasks) == [
        {"id": "0.currentInputWatermark", "value": str(-(2**63))},
        {"id": "1.currentInputWatermark", "value": "1500"},
    ]


def test_a_repeated_failure_has_its_last_time_and_its_count() -> None:
    cause = SerializedThrowable(type_name="ValueError", message="boom")
    once = RootExceptionHistoryEntry(number=1, root=ExceptionHistoryEntry(cause=cause, timestamp_ms=10))
    again = replace(once, number=2, times=3, last_timestamp_ms=90)

    newest, oldest = exception_history([once, again], most=10)["exceptionHistory"]["entries"]

    assert (newest["timestamp"], newest["failureLabels"]) == (90, {"times": "3"})
    assert (oldest["timestamp"], oldest["failureLabels"]) == (10, {})


def labelled_failure(number: int, **labels: str) -> RootExceptionHistoryEntry:
    cause = SerializedThrowable(type_name="ValueError", message="boom")
    labels_of_failure = tuple(FailureLabel(key=key, value=value) for key, value in labels.items())
    return RootExceptionHistoryEntry(
        number=number, root=ExceptionHistoryEntry(cause=cause, timestamp_ms=number, failure_labels=labels_of_failure)
    )


def test_failures_have_labels_and_are_filtered_by_all_specified_labels() -> None:
    entries = [
        labelled_failure(1, kind="user", owner="a"),
        labelled_failure(2, kind="user", owner="b"),
        labelled_failure(3),
    ]

    def of(said: str | None) -> list[int]:
        found = exception_history(entries, 10, label_filter(said))["exceptionHistory"]["entries"]
        return [entry["timestamp"] for entry in found]

    assert exception_history(entries, 1)["exceptionHistory"]["truncated"]
    assert exception_history(entries, 10)["exceptionHistory"]["entries"][2]["failureLabels"] == {
        "kind": "user",
        "owner": "a",
    }
    assert (of(None), of(""), of("kind:user"), of("kind:user,owner:a"), of("kind:x")) == (
        [3, 2, 1],
        [3, 2, 1],
        [2, 1],
        [1],
        [],
    )


@pytest.mark.parametrize("said", ["kind", "kind:", ":user", "kind:a,kind:b"])
def test_an_invalid_filter_is_refused(said: str) -> None:
    with pytest.raises(RestError, match="'failureLabelFilter'"):
        label_filter(said)


def subtask(number: int, watermark_ms: int | None) -> SubtaskDetails:
    metrics = TaskIOMetrics(watermark_ms=watermark_ms)
    attempt = AttemptDetails(attempt=None, attempt_number=0, state=ExecutionState.RUNNING, metrics=metrics)
    return SubtaskDetails(subtask=number, current=attempt)
