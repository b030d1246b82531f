"""Subtasks of a vertex, one by one: the current attempt, one of those before it, and what each has counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.monitoring.job_details import AttemptDetails, SubtaskDetails
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.handlers.jobs import job_of
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.vertices import accumulators, attempt_details


class SubtaskHandlers:
    """Answer by asking the cluster."""

    def __init__(self, gateway: JobQueries, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms

    def endpoints(self) -> Iterator[Endpoint]:
        one = "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex:int}"
        attempt = f"{one}/attempts/{{attempt:int}}"
        yield Endpoint(one, self._current, "The current attempt of a subtask")
        yield Endpoint(attempt, self._attempt, "An attempt of a subtask, the current one or one before it")
        yield Endpoint(f"{attempt}/accumulators", self._accumulators, "The accumulators of an attempt")

    def _current(self, query: Query) -> Json:
        subtask = self._subtask(query)
        return {"subtask": subtask.subtask, **attempt_details(subtask.current, self._now_ms())}

    def _attempt(self, query: Query) -> Json:
        subtask = self._subtask(query)
        attempt, _ = _attempt_of(subtask, query)
        return {"subtask": subtask.subtask, **attempt_details(attempt, self._now_ms())}

    def _accumulators(self, query: Query) -> Json:
        subtask = self._subtask(query)
        attempt, counted = _attempt_of(subtask, query)
        return {
            "subtask": subtask.subtask,
            "attempt": attempt.attempt_number,
            "id": attempt.attempt or "",
            "user-accumulators": accumulators(counted),
        }

    def _subtask(self, query: Query) -> SubtaskDetails:
        vertex, subtasks = self._gateway.vertex(job_of(query), JobVertexId(query.path["vertexid"]))
        wanted = int(query.path["subtaskindex"])
        found = next((each for each in subtasks if each.subtask == wanted), None)
        if found is None:
            raise RestError(404, f"vertex {vertex.vertex_id} has no subtask {wanted}")
        return found


def _attempt_of(subtask: SubtaskDetails, query: Query) -> tuple[AttemptDetails, Sequence[AccumulatorSnapshot]]:
    """The attempt that a path names, and its accumulators. Raises `RestError` where it is not known any more."""
    wanted, current = int(query.path["attempt"]), subtask.current
    if wanted == current.attempt_number:
        return current, subtask.accumulators
    for earlier in subtask.earlier:
        if earlier.attempt_number == wanted:
            return earlier, earlier.accumulators
    raise RestError(
        404, f"attempt {wanted} of subtask {subtask.subtask} is not known: its newest is {current.attempt_number}"
    )
