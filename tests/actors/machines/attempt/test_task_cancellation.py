"""What follows when an attempt that was told to end does not."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.task_cancellation import INTERVAL_MS, TIMEOUT_MS, TaskCancellation
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.messages.attempt.commands import CancelWork, InterruptWork
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import CancellationDue, FatalErrorOccurred
from flykka.messages.wire.ids import ExecutionAttemptId

ATTEMPT = ExecutionAttemptId("job_v_0_0")
AGAIN = (Tell(to=Role.BRIDGE, message=CancelWork()), Tell(to=Role.BRIDGE, message=InterruptWork()))


def cancellation(interval_ms: int | None = None, timeout_ms: int | None = None) -> TaskCancellation:
    return TaskCancellation(ATTEMPT, TaskCancellationSettings(interval_ms=interval_ms, timeout_ms=timeout_ms))


def test_the_bridge_is_told_again_at_every_interval_until_the_timeout() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=50)

    began = watched.start_watchdog(1_000)
    told = [watched.on_due(1_020), watched.on_due(1_040)]
    (fatal,) = watched.on_due(1_050)

    assert began == [StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())]
    assert told == [
        [*AGAIN, StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())],
        [*AGAIN, StartTimer(key="cancellation", delay_ms=10, message=CancellationDue())],
    ]
    assert isinstance(fatal, Tell)
    assert isinstance(fatal.message, FatalErrorOccurred)
    assert "job_v_0_0 did not end within 50 ms" in fatal.message.cause.message


def test_a_timeout_of_nothing_waits_for_ever() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=0)
    watched.start_watchdog(0)

    assert watched.on_due(1_000_000) == [*AGAIN, StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())]


def test_the_first_reason_to_end_starts_the_clock() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=50)
    watched.start_watchdog(0)

    assert watched.start_watchdog(40) == []
    (fatal,) = watched.on_due(50)
    assert isinstance(fatal, Tell)
    assert isinstance(fatal.message, FatalErrorOccurred)


@pytest.mark.parametrize(
    ("cluster", "job", "expected"),
    [
        ((None, None), (None, None), (INTERVAL_MS, TIMEOUT_MS)),
        ((1, 2), (None, None), (1, 2)),
        ((1, 2), (3, None), (3, 2)),
        ((1, 2), (None, 0), (1, 0)),
    ],
)
def test_what_the_job_says_goes_before_what_the_cluster_says(
    cluster: tuple[int | None, int | None], job: tuple[int | None, int | None], expected: tuple[int, int]
) -> None:
    watched = cancellation(*cluster)

    watched.load(TaskCancellationSettings(interval_ms=job[0], timeout_ms=job[1]))

    assert (watched.interval_ms, watched.timeout_ms) == expected
