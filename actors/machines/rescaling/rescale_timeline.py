"""Records the rescale under way, with the states of the scheduler during it, for the listeners of the job.

Mirrors Flink's RescaleTimeline. Decides nothing: each change returns the value to report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from flykka.actors.machines.rescaling.slot_allocator import desired_parallelism
from flykka.messages.control.rescaling import (
    JobResourceRequirements,
    Rescale,
    RescaleTerminatedReason,
    RescaleTrigger,
    SchedulerState,
    SchedulerStateSpan,
    VertexRescale,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import JobVertexId


class RescaleTimeline:
    """The rescales of one JobMaster, whose unique `name` is the prefix of their ids."""

    def __init__(self, job_graph: JobGraph, name: str) -> None:
        self._job_graph = job_graph
        self._name = name
        self._rescales = 0
        self._requirements = 0
        self._attempts = 0
        self._state: SchedulerStateSpan | None = None
        self.under_way: Rescale | None = None

    def requirements_changed(self) -> None:
        """Count new requirements, which later rescales are for."""
        self._requirements += 1
        self._attempts = 0

    def enter(self, state: SchedulerState, now: int) -> list[Rescale]:
        """Record a new state of the scheduler; return the rescale to report, if one is under way."""
        if self._state is not None and self._state.state is state:
            return []
        self._state = SchedulerStateSpan(state=state, entered_ms=now)
        if self.under_way is None:
            return []
        return [self._put(replace(self.under_way, states=(*self._left(now), self._state)))]

    def begin(
        self,
        trigger: RescaleTrigger,
        requirements: JobResourceRequirements,
        before: Mapping[JobVertexId, int] | None,
        now: int,
    ) -> list[Rescale]:
        """Begin a rescale from the parallelism `before` it, or from None if the job has not started."""
        assert self.under_way is None, "a rescale begins while another one is under way"
        self._rescales += 1
        self._attempts += 1
        desired = desired_parallelism(self._job_graph, requirements)
        lower = {each.vertex_id: each.lower_bound for each in requirements.vertices}
        rescale = Rescale(
            rescale_id=self._id(f"rescale/{self._rescales}"),
            requirements_id=self._id(f"requirements/{self._requirements}"),
            attempt=self._attempts,
            trigger=trigger,
            started_ms=now,
            states=() if self._state is None else (replace(self._state, entered_ms=now),),
            vertices=tuple(
                VertexRescale(
                    vertex_id=vertex.vertex_id,
                    name=vertex.name,
                    slot_sharing_group=vertex.slot_sharing_group,
                    sufficient_parallelism=lower[vertex.vertex_id],
                    desired_parallelism=desired[vertex.vertex_id],
                    pre_parallelism=None if before is None else before[vertex.vertex_id],
                )
                for vertex in self._job_graph.vertices
            ),
        )
        return [self._put(rescale)]

    def decide(self, parallelism: Mapping[JobVertexId, int]) -> list[Rescale]:
        """Record the parallelism to which the rescale under way leads."""
        assert self.under_way is not None, "nothing is decided where nothing is under way"
        vertices = tuple(
            replace(vertex, post_parallelism=parallelism[vertex.vertex_id]) for vertex in self.under_way.vertices
        )
        return [self._put(replace(self.under_way, vertices=vertices))]

    def end(self, reason: RescaleTerminatedReason, now: int, comment: str = "") -> list[Rescale]:
        if self.under_way is None:
            return []
        ended = replace(self.under_way, states=self._left(now), ended_ms=now, reason=reason, comment=comment)
        self.under_way = None
        return [ended]

    def _left(self, now: int) -> tuple[SchedulerStateSpan, ...]:
        assert self.under_way is not None
        *former, last = self.under_way.states or (None,)
        return tuple(each for each in (*former, None if last is None else replace(last, left_ms=now)) if each)

    def _put(self, rescale: Rescale) -> Rescale:
        self.under_way = rescale
        return rescale

    def _id(self, what: str) -> str:
        return hashlib.md5(f"{self._name}/{what}".encode(), usedforsecurity=False).hexdigest()
