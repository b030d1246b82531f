"""Attempts that were submitted and whose TaskManagers have not answered yet (Flink's `Execution.deploy`).

Attempts that are deployed together are one deployment, with one timer. It is over when each of them was acknowledged,
has reported a state or has ended. A TaskManager works off a large deployment for longer than any single answer may
take: the time-out counts from the last answer, and who has lost a message is found all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.messages.control.job_control import DeploymentTimedOut
from flykka.messages.wire.ids import ExecutionAttemptId


@dataclass(slots=True)
class _Deployment:
    attempts: dict[ExecutionAttemptId, None]
    answered_ms: int


class UnacknowledgedDeployments:
    """The deployments of one job that somebody has still to answer for."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._deployments: dict[int, _Deployment] = {}
        self._deployment_of: dict[ExecutionAttemptId, int] = {}
        self._last = 0

    def __contains__(self, attempt: ExecutionAttemptId) -> bool:
        return attempt in self._deployment_of

    def submit(self, attempts: Iterable[ExecutionAttemptId], now: int) -> StartTimer:
        self._last += 1
        deployment = self._deployments[self._last] = _Deployment(dict.fromkeys(attempts), now)
        self._deployment_of.update(dict.fromkeys(deployment.attempts, self._last))
        return self._timer(self._last, self.timeout_ms)

    def answer(self, attempt: ExecutionAttemptId, now: int) -> list[CancelTimer]:
        """Something is heard of the attempt, or it has ended: nobody waits for its acknowledgement any more."""
        number = self._deployment_of.pop(attempt, None)
        if number is None:
            return []
        deployment = self._deployments[number]
        deployment.answered_ms = now
        del deployment.attempts[attempt]
        if deployment.attempts:
            return []
        del self._deployments[number]
        return [CancelTimer(key=_key(number))]

    def time_out(self, number: int, now: int) -> tuple[ExecutionAttemptId, ...] | StartTimer | None:
        """The attempts that were not answered for in time; or when to look again. None where the deployment is over."""
        deployment = self._deployments.get(number)
        if deployment is None:
            return None
        remaining = deployment.answered_ms + self.timeout_ms - now
        if remaining > 0:
            return self._timer(number, remaining)
        return tuple(deployment.attempts)

    def check(self) -> None:
        waiting = {each: number for number, deployment in self._deployments.items() for each in deployment.attempts}
        assert waiting == self._deployment_of
        assert all(deployment.attempts for deployment in self._deployments.values())

    def _timer(self, number: int, delay_ms: int) -> StartTimer:
        return StartTimer(key=_key(number), delay_ms=delay_ms, message=DeploymentTimedOut(deployment=number))


def _key(number: int) -> str:
    return f"deployment-{number}"
