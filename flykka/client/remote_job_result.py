"""The end of a job in another process, and the waiting for it (Flink's RestClusterClient.requestJobResult)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flykka.messages.wire.ids import JobId

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Seconds between two questions, twice as long after each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobResult:
    """The result: `application_status` is SUCCEEDED, FAILED or CANCELED. `accumulators` are texts.

    `cause` says why it did not succeed, None where a user cancelled it.
    """

    job_id: JobId
    application_status: str
    net_runtime_ms: int
    accumulators: dict[str, str]
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHeartbeats:
    """Signs of life, in seconds: one each `interval`, and the job is cancelled where there was none for `timeout`."""

    interval: float = 30.0
    timeout: float = 180.0


class WaitingClock:
    """The time of a client that waits, in seconds."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


def result_of(job_id: JobId, answer: dict[str, Any]) -> RemoteJobResult | None:
    """The result in an answer of the REST interface; None where the job has not ended."""
    result = answer.get("job-execution-result")
    if answer["status"]["id"] != "COMPLETED" or result is None:
        return None
    cause = result.get("failure-cause")
    return RemoteJobResult(
        job_id=job_id,
        application_status=result["application-status"],
        net_runtime_ms=result["net-runtime"],
        accumulators=result["accumulator-results"],
        cause=None if cause is None else cause["stack-trace"],
    )


def await_result(
    ask: Callable[[], RemoteJobResult | None],
    give_sign_of_life: Callable[[int], object],
    heartbeats: ClientHeartbeats | None,
    timeout: float | None,
    clock: WaitingClock | None = None,
) -> RemoteJobResult | None:
    """Ask again and again, with signs of life where they are wanted; None where there is no result after `timeout` s.

    A sign of life is given the time at which it expires, in ms since the epoch.
    """
    clock = clock or WaitingClock()
    waits = pauses()
    next_sign = begun = clock.monotonic()
    while (result := ask()) is None:
        now = clock.monotonic()
        if timeout is not None and now - begun >= timeout:
            return None
        if heartbeats is not None and now >= next_sign:
            give_sign_of_life(round(1_000 * (clock.time() + heartbeats.timeout)))
            next_sign = now + heartbeats.interval
        # The next sign of life is not to be late, nor the end of the time.
        left = [] if heartbeats is None else [next_sign - now]
        left += [] if timeout is None else [begun + timeout - now]
        clock.sleep(max(0.0, min(next(waits), *left, LONGEST_PAUSE_S)))
    return result
