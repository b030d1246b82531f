"""Attempts that are not deployed yet: groups, each deployed as a whole as soon as it is complete.

The scheduling strategy forms the groups. A group waits until each of its tasks has its slot and its restored state. If
tasks are scheduled lazily, or restart without their producers, the group also waits until the locations of all its
inputs are known. The scheduling strategy decides when a task should get a slot; this module decides when the task's
channels can be wired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.messages.control.job_control import DeploymentTimedOut
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.tags import trace_tag

Unreadable = Callable[[Subtask], Iterator[Subtask]]
"""A function that yields the producers that a task cannot read yet. The iteration continues at the last such producer.
"""


@trace_tag("state.deployment_group")
class _Group:
    __slots__ = ("is_parked", "members", "missing")

    def __init__(self, members: tuple[Subtask, ...]) -> None:
        # A dict keeps the order: decisions must not depend on hashes.
        self.members = dict.fromkeys(members)
        self.missing = 0
        self.is_parked = False


@trace_tag("state.pending_deployments")
class Deployments:
    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable
        self._group_of: dict[Subtask, _Group] = {}
        self._needs: dict[Subtask, int] = {}
        self._ready: list[_Group] = []
        self._parked: dict[Subtask, list[tuple[_Group, Iterator[Subtask]]]] = {}

    def __contains__(self, task: Subtask) -> bool:
        return task in self._group_of

    def wait_for(self, tasks: tuple[Subtask, ...], stateless: Iterable[Subtask]) -> None:
        """Add a group of tasks. Tasks in `stateless` still wait for their restored state."""
        group = _Group(tasks)
        for task in tasks:
            self._group_of[task] = group
            self._needs[task] = 1
            group.missing += 1
        for task in stateless:
            self._needs[task] += 1
            group.missing += 1

    def supplied(self, task: Subtask) -> None:
        group = self._group_of[task]
        self._needs[task] -= 1
        group.missing -= 1
        if group.missing == 0:
            self._ready.append(group)

    def leave(self, task: Subtask) -> None:
        group = self._group_of.pop(task, None)
        if group is None:
            return
        group.missing -= self._needs.pop(task)
        del group.members[task]
        if group.missing == 0 and group.members and not group.is_parked and group not in self._ready:
            self._ready.append(group)

    def readable(self, producer: Subtask) -> None:
        for group, unreadable in self._parked.pop(producer, ()):
            self._park(group, unreadable)

    def take_ready(self, *, looks_at_producers: bool) -> tuple[Subtask, ...]:
        """Remove and return the tasks of all complete groups, each task once.

        With `looks_at_producers` groups also wait for the producers that their tasks read, which may be in other
        groups.
        """
        ready, self._ready = self._ready, []
        if looks_at_producers:
            for group in ready:
                self._park(group, chain.from_iterable(map(self._unreadable, tuple(group.members))))
            ready, self._ready = self._ready, []
        tasks = tuple(task for group in ready for task in group.members)
        for task in tasks:
            del self._group_of[task], self._needs[task]
        return tasks

    def clear(self) -> None:
        self._group_of.clear()
        self._needs.clear()
        self._ready.clear()
        self._parked.clear()

    def _park(self, group: _Group, unreadable: Iterator[Subtask]) -> None:
        if not group.members:
            return
        producer = next(unreadable, None)
        group.is_parked = producer is not None
        if producer is None:
            self._ready.append(group)
        else:
            self._parked.setdefault(producer, []).append((group, unreadable))

    def check(self) -> None:
        for group in dict.fromkeys(self._group_of.values()):
            assert group.missing == sum(self._needs[task] for task in group.members)
        assert all(task in group.members for task, group in self._group_of.items())


@dataclass(slots=True)
class _Deployment:
    attempts: dict[ExecutionAttemptId, None]
    answered_ms: int


class UnacknowledgedDeployments:
    """Attempts that were submitted but not acknowledged by their TaskManagers (Flink's `Execution.deploy`).

    Attempts that are deployed together are one deployment, with one timer. A deployment ends when each of its attempts
    was acknowledged, has reported a state or has ended. A TaskManager may need longer for a large deployment than the
    timeout of a single reply, so the timeout counts from the last reply. A TaskManager that has lost a message is still
    detected.
    """

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
