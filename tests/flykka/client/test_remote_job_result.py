"""A client that waits for a job in another process: its polling and its heartbeats."""

from __future__ import annotations

from flykka.client.rest_cluster_client import (
    LONGEST_PAUSE_S,
    ClientHeartbeats,
    RemoteJobResult,
    WaitingClock,
    await_result,
    result_of,
)
from flykka.messages.wire.ids import JobId

JOB = JobId("job")
DONE = RemoteJobResult(job_id=JOB, application_status="SUCCEEDED", net_runtime_ms=5, accumulators={})


class Clock(WaitingClock):
    """A clock whose time passes only during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_polling_intervals_grow_to_a_maximum() -> None:
    clock = Clock()
    answers = iter([None] * 8 + [DONE])

    assert await_result(lambda: next(answers), lambda _: None, None, None, clock) == DONE
    assert clock.slept[:3] == [0.05, 0.1, 0.2]
    assert clock.slept[-1] == LONGEST_PAUSE_S


def test_heartbeats_are_sent_before_the_previous_one_expires() -> None:
    clock, given = Clock(), list[tuple[float, int]]()

    def give_sign_of_life(expires_ms: int) -> None:
        given.append((round(clock.now, 3), expires_ms))

    heartbeats = ClientHeartbeats(interval=2.0, timeout=6.0)
    result = await_result(lambda: None if clock.now < 5 else DONE, give_sign_of_life, heartbeats, None, clock)

    assert result == DONE
    assert given == [(0.0, 1_006_000), (2.0, 1_008_000), (4.0, 1_010_000)]


def test_a_wait_ends_at_its_timeout() -> None:
    clock = Clock()

    assert await_result(lambda: None, lambda _: None, None, 3.0, clock) is None
    assert clock.now == 3.0


def test_a_response_contains_the_result_only_after_the_end_of_the_job() -> None:
    result = {
        "application-status": "FAILED",
        "net-runtime": 7,
        "accumulator-results": {"rows": "3"},
        "failure-cause": {"class": "ValueError", "stack-trace": "ValueError: boom"},
    }

    assert result_of(JOB, {"status": {"id": "IN_PROGRESS"}}) is None
    assert result_of(JOB, {"status": {"id": "COMPLETED"}, "job-execution-result": result}) == RemoteJobResult(
        job_id=JOB, application_status="FAILED", net_runtime_ms=7, accumulators={"rows": "3"}, cause="ValueError: boom"
    )
