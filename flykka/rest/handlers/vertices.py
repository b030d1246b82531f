"""Vertices of a job and their subtasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flykka.actors.machines.graph.accumulators import merged
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.monitoring.job_details import JobVertexDetails, SubtaskDetails
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.handlers.jobs import job_of
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.metrics import aggregates, values, values_of_subtask
from flykka.rest.responses.vertices import (
    accumulators,
    back_pressure,
    by_task_manager,
    subtask_times,
    vertex_details,
    watermarks,
)


class VertexHandlers:
    """Answer by asking the cluster."""

    def __init__(self, gateway: JobQueries, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
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
            self._back_pressure,
            "How much its subtasks wait for their readers",
            pages="subtasks",
        )
        yield Endpoint(f"{vertex}/accumulators", self._accumulators, "The accumulators of a vertex")
        yield Endpoint(
            f"{vertex}/subtasks/accumulators", self._of_subtasks, "The accumulators of its subtasks", pages="subtasks"
        )
        get, over = {"get": "string"}, {"get": "string", "agg": "string", "subtasks": "string"}
        yield Endpoint(f"{vertex}/metrics", self._metrics, "Metrics of its subtasks, each by itself", arguments=get)
        yield Endpoint(f"{vertex}/subtasks/metrics", self._aggregated, "Metrics over its subtasks", arguments=over)
        one = f"{vertex}/subtasks/{{subtaskindex}}/metrics"
        yield Endpoint(one, self._of_subtask, "Metrics of one of them", arguments=get)

    def _details(self, query: Query) -> Json:
        vertex, subtasks = self._found(query)
        graph = self._gateway.graph(job_of(query))
        of_graph = next(each for each in graph.vertices if each.vertex_id == vertex.vertex_id)
        return vertex_details(vertex, of_graph.max_parallelism, subtasks, self._now_ms())

    def _by_task_manager(self, query: Query) -> Json:
        vertex, subtasks = self._found(query)
        return by_task_manager(vertex, subtasks, self._now_ms())

    def _times(self, query: Query) -> Json:
        vertex, subtasks = self._found(query)
        return subtask_times(vertex, subtasks, self._now_ms())

    def _watermarks(self, query: Query) -> list[Json]:
        vertex, subtasks = self._found(query)
        return [] if vertex.sources else watermarks(subtasks)

    def _back_pressure(self, query: Query) -> Json:
        return back_pressure(self._found(query)[1], self._now_ms())

    def _accumulators(self, query: Query) -> Json:
        vertex, subtasks = self._found(query)
        found = merged(snapshot for each in subtasks for snapshot in each.accumulators)
        return {"id": vertex.vertex_id, "user-accumulators": accumulators(found.merged)}

    def _of_subtasks(self, query: Query) -> Json:
        vertex, subtasks = self._found(query)
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
        return values(self._found(query)[1], query.arguments.get("get"))

    def _of_subtask(self, query: Query) -> list[Json]:
        vertex, subtasks = self._found(query)
        wanted = query.path["subtaskindex"]
        found = [each for each in subtasks if str(each.subtask) == wanted]
        if not found:
            raise RestError(404, f"vertex {vertex.vertex_id} has no subtask {wanted}")
        return values_of_subtask(found[0], query.arguments.get("get"))

    def _aggregated(self, query: Query) -> list[Json]:
        arguments = query.arguments
        subtasks = self._found(query)[1]
        return aggregates(subtasks, arguments.get("get"), arguments.get("agg"), arguments.get("subtasks"))

    def _found(self, query: Query) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        return self._gateway.vertex(job_of(query), JobVertexId(query.path["vertexid"]))
