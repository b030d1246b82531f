"""What a listener that comes late is told of a job."""

from __future__ import annotations

from flykka.job_history import JobHistory
from flykka.messages.ids import ExecutionAttemptId, JobId
from flykka.messages.job import JobRestored, JobResultSuccess, MetricsReported
from flykka.messages.message import Message
from flykka.messages.task import TaskIOMetrics

JOB = JobId("job")


def restored(checkpoint_id: int) -> JobRestored:
    return JobRestored(job_id=JOB, checkpoint_id=checkpoint_id, timestamp_ms=0)


def reported(attempt: str, rows: int) -> MetricsReported:
    return MetricsReported(
        job_id=JOB, attempt=ExecutionAttemptId(attempt), task_name=attempt, metrics=TaskIOMetrics(rows_in=rows)
    )


def remembered(*messages: Message, limit: int = 1_000) -> list[Message]:
    history = JobHistory(limit)
    for message in messages:
        history.add(message)
    return list(history)


def test_messages_are_kept_in_the_order_in_which_they_came() -> None:
    end = JobResultSuccess(job_id=JOB)

    assert remembered(restored(2), restored(1), end) == [restored(2), restored(1), end]


def test_of_the_metrics_of_an_attempt_only_the_latest_are_kept_in_their_place() -> None:
    told = [reported("a", 1), reported("b", 1), restored(1), reported("a", 2), restored(2)]

    assert remembered(*told) == [reported("b", 1), restored(1), reported("a", 2), restored(2)]


def test_above_the_limit_the_oldest_is_forgotten_whatever_it_is() -> None:
    told = [reported("a", 1), *(restored(number) for number in range(4))]

    assert remembered(*told, limit=3) == [restored(1), restored(2), restored(3)]


def test_metrics_push_out_nothing_however_many_there_are() -> None:
    told = [restored(1), *(reported("a", rows) for rows in range(5_000))]

    assert remembered(*told, limit=3) == [restored(1), reported("a", 4_999)]


def test_an_attempt_whose_metrics_were_forgotten_is_heard_of_again() -> None:
    told = [reported("a", 1), restored(1), restored(2), reported("a", 2)]

    assert remembered(*told, limit=2) == [restored(2), reported("a", 2)]
