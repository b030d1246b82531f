"""Vertices of a job and their subtasks: attempts, accumulators, metrics and flame graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flykka.actors.machines.graph.accumulators import merged
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.monitoring.job_details import AttemptDetails, JobVertexDetails, SubtaskDetails
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.process.flame_graphs import FlameGraphs, FlameGraphType, terminated
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.metrics import aggregates, values, values_of_subtask
from flykka.rest.responses.vertices import (
    accumulators,
    attempt_details,
    back_pressure,
    by_task_manager,
    subtask_times,
    vertex_details,
    watermarks,
)


class VertexHandlers:
    def __init__(self, gateway: JobQueries, graphs: FlameGraphs, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._graphs = graphs
        self._now_ms = now_ms

    def endpoints(self) -> Iterator[Endpoint]:
        vertex = "/jobs/{jobid}/vertices/{vertexid}"
        yield Endpoint(vertex, self._details, "A vertex and its subtasks", pages="subtasks")
        yield Endpoint(
            f"{vertex}/taskmanagers",
            self._by_task_manager,
            "The subtasks of a vertex by TaskManager",
            pages="taskmanagers",
        )
        yield Endpoint(
            f"{vertex}/subtasktimes", self._times, "The times of the states of its subtasks", pages="subtasks"
        )
        yield Endpoint(f"{vertex}/watermarks", self._watermarks, "The watermarks of its subtasks")
        yield Endpoint(
            f"{vertex}/backpressure",
            lambda query: back_pressure(self._vertex_and_subtasks(query)[1], self._now_ms()),
            "The back-pressure of its subtasks",
            pages="subtasks",
        )
        yield Endpoint(f"{vertex}/accumulators", self._accumulators, "The accumulators of a vertex")
        yield Endpoint(
            f"{vertex}/subtasks/accumulators", self._of_subtasks, "The accumulators of its subtasks", pages="subtasks"
        )
        get, over = {"get": "string"}, {"get": "string", "agg": "string", "subtasks": "string"}
        yield Endpoint(f"{vertex}/metrics", self._metrics, "Metrics of its subtasks, individually", arguments=get)
        yield Endpoint(f"{vertex}/subtasks/metrics", self._aggregated, "Metrics over its subtasks", arguments=over)
        one = f"{vertex}/subtasks/{{subtaskindex:int}}"
        yield Endpoint(f"{one}/metrics", self._of_subtask, "Metrics of one of them", arguments=get)
        attempt = f"{one}/attempts/{{attempt:int}}"
        yield Endpoint(one, self._current, "The current attempt of a subtask")
        yield Endpoint(attempt, self._attempt, "An attempt of a subtask, the current one or one before it")
        yield Endpoint(f"{attempt}/accumulators", self._of_attempt, "The accumulators of an attempt")
        arguments = {"type": "string", "subtaskindex": "integer"}
        what = "Samples of the stacks of its threads, as a tree"
        yield Endpoint(f"{vertex}/flamegraph", self._flame_graph, what, arguments=arguments)

    def _details(self, query: Query) -> Json:
        vertex, subtasks = self._vertex_and_subtasks(query)
        graph = self._gateway.graph(query.job_id)
        of_graph = next(each for each in graph.vertices if each.vertex_id == vertex.vertex_id)
        return vertex_details(vertex, of_graph.max_parallelism, subtasks, self._now_ms())

    def _by_task_manager(self, query: Query) -> Json:
        vertex, subtasks = self._vertex_and_subtasks(query)
        return by_task_manager(vertex, subtasks, self._now_ms())

    def _times(self, query: Query) -> Json:
        vertex, subtasks = self._vertex_and_subtasks(query)
        return subtask_times(vertex, subtasks, self._now_ms())

    def _watermarks(self, query: Query) -> list[Json]:
        vertex, subtasks = self._vertex_and_subtasks(query)
        return [] if vertex.sources else watermarks(subtasks)

    def _accumulators(self, query: Query) -> Json:
        vertex, subtasks = self._vertex_and_subtasks(query)
        results = merged(snapshot for each in subtasks for snapshot in each.accumulators)
        return {"id": vertex.vertex_id, "user-accumulators": accumulators(results.merged)}

    def _of_subtasks(self, query: Query) -> Json:
        vertex, subtasks = self._vertex_and_subtasks(query)
        return {
            "id": vertex.vertex_id,
            "parallelism": vertex.parallelism,
            "subtasks": [
                {
                    "subtask": each.subtask,
                    "attempt": each.current.attempt_number,
                    "endpoint": each.current.task_manager or "",
                    "user-accumulators": accumulators(each.accumulators),
                }
                for each in subtasks
            ],
        }

    def _metrics(self, query: Query) -> list[Json]:
        return values(self._vertex_and_subtasks(query)[1], query.arguments.get("get"))

    def _of_subtask(self, query: Query) -> list[Json]:
        return values_of_subtask(self._subtask(query), query.arguments.get("get"))

    def _aggregated(self, query: Query) -> list[Json]:
        arguments = query.arguments
        subtasks = self._vertex_and_subtasks(query)[1]
        return aggregates(subtasks, arguments.get("get"), arguments.get("agg"), arguments.get("subtasks"))

    def _current(self, query: Query) -> Json:
        subtask = self._subtask(query)
        return {"subtask": subtask.subtask, **attempt_details(subtask.current, self._now_ms())}

    def _attempt(self, query: Query) -> Json:
        subtask = self._subtask(query)
        attempt, _ = _attempt_of(subtask, query)
        return {"subtask": subtask.subtask, **attempt_details(attempt, self._now_ms())}

    def _of_attempt(self, query: Query) -> Json:
        subtask = self._subtask(query)
        attempt, snapshots = _attempt_of(subtask, query)
        return {
            "subtask": subtask.subtask,
            "attempt": attempt.attempt_number,
            "id": attempt.attempt or "",
            "user-accumulators": accumulators(snapshots),
        }

    def _subtask(self, query: Query) -> SubtaskDetails:
        vertex, subtasks = self._vertex_and_subtasks(query)
        index = int(query.path["subtaskindex"])
        subtask = next((each for each in subtasks if each.subtask == index), None)
        if subtask is None:
            raise RestError(404, f"vertex {vertex.vertex_id} has no subtask {index}")
        return subtask

    def _flame_graph(self, query: Query) -> Json | Costly:
        job_id, vertex_id = query.job_id, query.vertex_id
        vertex, subtasks = self._gateway.vertex(job_id, vertex_id)
        kind = query.arguments.get("type", FlameGraphType.FULL.value).upper()
        if kind not in list(FlameGraphType):
            raise RestError(400, f"there is no type {kind!r} of flame graphs: there are {', '.join(FlameGraphType)}")
        subtask = query.number("subtaskindex", 0) if "subtaskindex" in query.arguments else None
        if subtask is not None and subtask >= vertex.parallelism:
            raise RestError(404, f"vertex {vertex_id} has no subtask {subtask}")
        if all(each.current.state in EXECUTION_TERMINAL for each in subtasks):
            return terminated()
        return Costly(
            cost=Cost.ACTORS,
            make=lambda: self._graphs.graph(job_id, vertex_id, FlameGraphType(kind), subtask, self._now_ms),
            key=("flame graph", job_id, vertex_id, kind, subtask),
        )

    def _vertex_and_subtasks(self, query: Query) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        return self._gateway.vertex(query.job_id, query.vertex_id)


def _attempt_of(subtask: SubtaskDetails, query: Query) -> tuple[AttemptDetails, Sequence[AccumulatorSnapshot]]:
    """Return the attempt in the path, and its accumulators. Raises `RestError` if the attempt is unknown."""
    number, current = int(query.path["attempt"]), subtask.current
    if number == current.attempt_number:
        return current, subtask.accumulators
    for earlier in subtask.earlier:
        if earlier.attempt_number == number:
            return earlier, earlier.accumulators
    raise RestError(
        404, f"attempt {number} of subtask {subtask.subtask} is not known: its newest is {current.attempt_number}"
    )
