"""A subtask of a vertex through all of its attempts (Flink's ExecutionVertex)."""

from __future__ import annotations

from collections import deque

from flykka.actors.machines.graph.execution import Execution
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.wire.ids import JobId, attempt_id

PRIOR_ATTEMPTS_KEPT = 16
"""As in Flink: a job that fails for ever must not grow for ever."""


class ExecutionVertex:
    """A subtask: its attempt of the moment and the last ones before."""

    def __init__(
        self, job_id: JobId, job_vertex: JobVertex, subtask: int, now: int, first_attempt_number: int = 0
    ) -> None:
        self.job_vertex = job_vertex
        self.subtask = subtask
        self.name = f"{job_vertex.name} ({subtask + 1}/{job_vertex.parallelism})"
        self.prior: deque[Execution] = deque(maxlen=PRIOR_ATTEMPTS_KEPT)
        self._job_id = job_id
        self.execution = self._attempt(first_attempt_number, now)

    def reset(self, now: int) -> Execution:
        """A new attempt in the place of one that has come to an end."""
        assert self.execution.is_terminal, f"{self.execution.attempt} is {self.execution.state} and cannot be replaced"
        self.prior.append(self.execution)
        self.execution = self._attempt(self.execution.number + 1, now)
        return self.execution

    def _attempt(self, number: int, now: int) -> Execution:
        return Execution(
            attempt=attempt_id(self._job_id, self.job_vertex.vertex_id, self.subtask, number),
            number=number,
            vertex_id=self.job_vertex.vertex_id,
            subtask=self.subtask,
            name=self.name,
            now=now,
        )
