"""Faults, and wishes of clients, placed in virtual time by chance; and which failures of a job they allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import assert_never

from flykka.messages.job import CancelJob, JobResultFailure, JobStatus, StopJob, TriggerSavepoint
from flykka.messages.job_graph import JobGraph
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.simulation.network_faults import DOUBLED, LOST, TIMERS
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.storage import Operation
from flykka.simulation.system import SimulatedSystem
from flykka.simulation.topology import Topology
from flykka.simulation.world import World

_BEGIN_MS = (0, 0, 5, 60, 200, 500, 1_000, 3_000)
_PAUSES_MS = (1, 20, 300, 3_000, 12_000)
_SLOW_MS = (300, 3_000, 8_000)
_STORAGE_MS = (20, 500, 4_000)
_JUMPS_MS = (500, 5_000, 60_000)


@dataclass(frozen=True, slots=True)
class _Planned:
    at_ms: int
    kind: FaultKind


class FaultInjector:
    """Lets a run go on, with what goes wrong on the way."""

    def __init__(
        self, chance: Random, settings: SimulationSettings, system: SimulatedSystem, world: World, topology: Topology
    ) -> None:
        self.injected: Counter[str] = Counter()
        self.last_at_ms = 0
        self.has_resource_manager = True
        self._chance = chance
        self._settings = settings
        self._system = system
        self._world = world
        self._vertices = [vertex.vertex_id for vertex in topology.vertices]
        self._planned: list[_Planned] = []
        self._failing: dict[Operation, int] = {}
        """Until when each operation of the storage may fail."""
        self._allows_failure = False
        world.storage.fails = self._storage_fails

    def plan(self, job_graph: JobGraph, job_manager: Ref, client: Ref) -> None:
        """Place what is to happen to the next job."""
        self._job_graph, self._job_manager, self._client = job_graph, job_manager, client
        self._allows_failure = job_graph.restart_strategy.attempts is not None
        kinds, now = sorted(self._settings.faults), self._now
        count = self._chance.randint(0, self._settings.max_faults) if kinds else 0
        drawn = [self._chance.choice(kinds) for _ in range(count)]
        moments = [now + self._chance.choice(_BEGIN_MS) + self._chance.randint(0, 200) for _ in drawn]
        self._planned = sorted(map(_Planned, moments, drawn), key=lambda planned: planned.at_ms)
        self.last_at_ms = max([now, *moments])

    def run_for(self, ms: int) -> None:
        """Let so much virtual time pass, with the faults that are due."""
        until = self._now + ms
        while self._planned and self._planned[0].at_ms <= until:
            planned = self._planned.pop(0)
            self._system.advance(max(0, planned.at_ms - self._now))
            self._inject(planned.kind)
        self._system.advance(max(0, until - self._now))

    def judge(self, job_graph: JobGraph, result: JobResultFailure, violated: Callable[[str, str], None]) -> None:
        """Say where a job has ended as nothing allows it."""
        if result.status is JobStatus.CANCELED or self._allows_failure:
            return
        cause = f"{result.cause.type_name}: {result.cause.message}"
        violated("result", f"{job_graph.job_id} has {result.status}, and is to be restarted without end: {cause}")

    @property
    def _now(self) -> int:
        return self._system.clock.now_ms()

    def _inject(self, kind: FaultKind) -> None:
        match kind:
            case FaultKind.DELAY:
                happened = self._pause()
            case FaultKind.LOSS:
                happened = self._plan_for(self._system.network.lost, sorted(LOST, key=_name))
            case FaultKind.DUPLICATE:
                happened = self._plan_for(self._system.network.doubled, sorted(DOUBLED, key=_name))
            case FaultKind.TIMER:
                happened = self._plan_for(self._system.network.lost, sorted(TIMERS, key=_name))
            case FaultKind.CRASH:
                happened = self._kill(lambda path: path.count("/") == 2 and "/task-manager-" in path)
            case FaultKind.KILL:
                happened = self._kill(lambda path: path.count("/") > 2 and "/task-manager-" in path)
            case FaultKind.STAGE:
                self._world.trouble.failing_stages[self._chance.choice(self._vertices)] += 1
                happened = True
            case FaultKind.SLOW:
                slow_ms = self._chance.choice(_SLOW_MS)
                self._world.trouble.slow_ms[self._chance.choice(self._vertices)] = slow_ms
                happened = True
            case FaultKind.STORAGE:
                lasts_ms = self._chance.choice(_STORAGE_MS)
                self._failing[self._chance.choice(tuple(Operation))] = self._now + lasts_ms
                self.last_at_ms = max(self.last_at_ms, self._now + lasts_ms)
                # A submission that cannot be written down is refused, and a job whose folder cannot be made is over.
                self._allows_failure = self._allows_failure or self._is_being_submitted
                happened = True
            case FaultKind.CLOCK:
                self._system.jump(self._chance.choice(_JUMPS_MS))
                self.last_at_ms = max(self.last_at_ms, self._now)
                happened = True
            case FaultKind.MASTER:
                happened = self._kill_master()
            case FaultKind.REQUEST:
                self._request()
                happened = True
            case _:
                assert_never(kind)
        if happened and kind not in (FaultKind.LOSS, FaultKind.DUPLICATE):
            self.injected[kind] += 1

    def _pause(self) -> bool:
        path = self._chance.choice(self._living(lambda path: path.startswith("/user/")))
        lasts_ms = self._chance.choice(_PAUSES_MS)
        self._system.schedule.pause(path, lasts_ms)
        self.last_at_ms = max(self.last_at_ms, self._now + lasts_ms)
        return True

    def _plan_for(self, plan: Counter[type[Message]], kinds: list[type[Message]]) -> bool:
        plan[self._chance.choice(kinds)] += self._chance.choice((1, 1, 3))
        return True

    def _kill(self, is_meant: Callable[[str], bool]) -> bool:
        paths = self._living(is_meant)
        victim = self._system.find(self._chance.choice(paths)) if paths else None
        if victim is not None:
            self._system.kill(victim)
        return victim is not None

    def _kill_master(self) -> bool:
        """There is no takeover yet: the job fails."""
        if self._chance.random() < 0.25:
            self.has_resource_manager = False
            killed = self._kill(lambda path: path == "/user/resource-manager")
        else:
            killed = self._kill(lambda path: path.startswith("/user/job-manager/"))
        self._allows_failure = self._allows_failure or killed
        return killed

    def _request(self) -> None:
        job_id, client, savepoints = self._job_graph.job_id, self._client, f"{self._world.root}/savepoints"
        drawn = self._chance.random()
        request: Message
        if drawn < 0.1:
            request = CancelJob(job_id=job_id, client=client)
        elif drawn < 0.5:
            request = TriggerSavepoint(job_id=job_id, client=client, savepoint_directory=savepoints)
        elif drawn < 0.7:
            request = StopJob(job_id=job_id, client=client)
        else:
            drain = drawn > 0.92
            request = StopJob(job_id=job_id, client=client, savepoint_directory=savepoints, drain=drain)
        self._job_manager.tell(request)

    @property
    def _is_being_submitted(self) -> bool:
        return not self._living(lambda path: path.startswith("/user/job-manager/"))

    def _living(self, is_meant: Callable[[str], bool]) -> list[str]:
        return sorted(path for path in self._system.cells.living_paths() if is_meant(path))

    def _storage_fails(self, operation: Operation, path: str) -> bool:
        return self._now < self._failing.get(operation, 0) and self._chance.random() < 0.7


def _name(kind: type[Message]) -> str:
    return kind.__name__
