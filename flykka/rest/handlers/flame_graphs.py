"""Flame graphs of vertices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.handlers.jobs import job_of
from flykka.rest.process.flame_graphs import FlameGraphs, FlameGraphType, terminated
from flykka.rest.responses.io_metrics import Json


class FlameGraphHandlers:
    """Answer from the threads of the process; the cluster says whether there is such a vertex."""

    def __init__(self, gateway: JobQueries, graphs: FlameGraphs, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._graphs = graphs
        self._now_ms = now_ms

    def endpoints(self) -> Iterator[Endpoint]:
        path = "/jobs/{jobid}/vertices/{vertexid}/flamegraph"
        arguments = {"type": "string", "subtaskindex": "integer"}
        yield Endpoint(path, self._graph, "Samples of the stacks of its threads, as a tree", arguments=arguments)

    def _graph(self, query: Query) -> Json | Costly:
        job_id, vertex_id = job_of(query), JobVertexId(query.path["vertexid"])
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
