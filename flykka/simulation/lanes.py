"""The time that work takes in a simulation: what Spark's threads are to an attempt, in virtual time.

How long each piece takes is drawn by a chance of the attempt's own. Work of one lane ends in the order in which it was
begun; nothing of an attempt that is over ends at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from flykka.messages.attempt.commands import Lane
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from flykka.runtime.dispatch.pipe import Pipe
from flykka.simulation.world import World

T = TypeVar("T")

_PACES = (0, 1, 1, 4)
"""The slowness of an attempt beside others: before slow ones, batches wait in line."""


class Lanes:
    """The lanes of one attempt."""

    def __init__(self, attempt: ExecutionAttemptId, vertex_id: JobVertexId, world: World) -> None:
        self._vertex_id = vertex_id
        self._world = world
        self._random = Random(f"{world.name}/{attempt}")
        self._pace = self._random.choice(_PACES)
        self._due_ms: dict[Lane, int] = {}
        self.are_closed = False

    def run(self, lane: Lane, work: Pipe[Any]) -> None:
        """Have work done when its time has come."""
        if lane in (Lane.AT_ONCE, Lane.END):
            work.run()
            return
        takes_ms = self._pace * self._random.choice(self._world.stage_ms)
        if lane is Lane.STAGES:
            takes_ms += self._world.trouble.delay_ms(self._vertex_id)
            work = work.with_work(partial(self._as_stage, work.work))
        clock = work.cell.system.clock
        due_ms = self._due_ms[lane] = max(self._due_ms.get(lane, 0), clock.now_ms() + takes_ms)
        clock.schedule(due_ms, partial(self._end, work))

    def _end(self, work: Pipe[Any]) -> None:
        if not self.are_closed:
            work.run()

    def _as_stage(self, work: Callable[[], T]) -> T:
        if self._world.trouble.stage_fails(self._vertex_id):
            raise OSError("the stage failed, as the simulation wanted it")
        return work()


@dataclass(frozen=True, slots=True)
class OnLane:
    """A lane, as an executor."""

    lanes: Lanes
    lane: Lane

    def run_blocking(self, work: Pipe[Any]) -> None:
        """Have work done when its time has come."""
        self.lanes.run(self.lane, work)
