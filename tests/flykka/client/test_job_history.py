"""The events that a late listener receives."""

from __future__ import annotations

from flykka.client.client_actor import JobHistory
from flykka.messages.control.job import JobRestored, JobResultSuccess, MetricsReported
from flykka.messages.tasks.task import TaskIOMetrics
from flykka.messages.wire.ids import JobId, JobVertexId, attempt_id
from flykka.messages.wire.message import Message

JOB = JobId("job")
VERTEX = JobVertexId("vertex")


def job_restored(checkpoint_id: int) -> JobRestored:
    return JobRestored(job_id=JOB, checkpoint_id=checkpoint_id, timestamp_ms=0)


def metrics_reported(subtask: int, rows: int, number: int = 0) -> MetricsReported:
    return MetricsReported(
        job_id=JOB,
        attempt=attempt_id(JOB, VERTEX, subtask, number),
        task_name="task",
        metrics=TaskIOMetrics(rows_in=rows),
        vertex_id=VERTEX,
        subtask=subtask,
    )


def retained_messages(*messages: Message, limit: int = 1_000) -> list[Message]:
    history = JobHistory(limit)
    for message in messages:
        history.add(message)
    return list(history)


def test_messages_are_retained_in_order_of_arrival() -> None:
    end = JobResultSuccess(job_id=JOB)

    assert retained_messages(job_restored(2), job_restored(1), end) == [job_restored(2), job_restored(1), end]


def test_only_the_latest_metrics_of_a_subtask_are_retained() -> None:
    messages = [
        metrics_reported(0, 1),
        metrics_reported(1, 1),
        job_restored(1),
        metrics_reported(0, 2),
        job_restored(2),
    ]

    assert retained_messages(*messages) == [
        metrics_reported(1, 1),
        job_restored(1),
        metrics_reported(0, 2),
        job_restored(2),
    ]


def test_metrics_of_an_attempt_replace_those_of_the_previous_attempt() -> None:
    messages = [metrics_reported(0, 9), job_restored(1), metrics_reported(0, 1, number=1)]

    assert retained_messages(*messages) == [job_restored(1), metrics_reported(0, 1, number=1)]


def test_the_oldest_message_is_dropped_beyond_the_limit_but_no_metrics() -> None:
    messages = [metrics_reported(0, 1), *(job_restored(number) for number in range(4))]

    assert retained_messages(*messages, limit=3) == [
        metrics_reported(0, 1),
        job_restored(1),
        job_restored(2),
        job_restored(3),
    ]


def test_metrics_of_many_subtasks_do_not_displace_messages() -> None:
    messages = [job_restored(1), *(metrics_reported(subtask, 1) for subtask in range(5_000))]

    assert retained_messages(*messages, limit=3)[0] == job_restored(1)
