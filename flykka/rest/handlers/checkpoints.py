"""Checkpoints of a job."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.handlers.jobs import job_of
from flykka.rest.responses.checkpoints import (
    checkpoint_config,
    checkpoint_details,
    checkpointing_statistics,
    subtask_details,
)
from flykka.rest.responses.io_metrics import Json

HISTORY_SHOWN = 10
"""So many of the last checkpoints are listed, as by Flink, unless more are asked for: a dashboard asks every second."""


class CheckpointHandlers:
    """Answer by asking the cluster."""

    def __init__(self, gateway: JobQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        checkpoints = "/jobs/{jobid}/checkpoints"
        what = "The checkpoints of a job: counts, summary, history"
        yield Endpoint(checkpoints, self._statistics, what, arguments={"limit": "integer"})
        yield Endpoint(f"{checkpoints}/config", self._config, "The settings of its checkpoints")
        details = f"{checkpoints}/details/{{checkpointid:int}}"
        yield Endpoint(details, self._details, "A checkpoint and its vertices")
        yield Endpoint(
            f"{details}/subtasks/{{vertexid}}",
            self._subtasks,
            "The subtasks of a vertex in a checkpoint",
            pages="subtasks",
        )

    def _statistics(self, query: Query) -> Json:
        job_id = job_of(query)
        stats, restored_ms = self._gateway.checkpoints(job_id), self._gateway.details(job_id).restored_ms
        return checkpointing_statistics(stats, restored_ms, listed=query.number("limit", HISTORY_SHOWN))

    def _config(self, query: Query) -> Json:
        return checkpoint_config(self._gateway.graph(job_of(query)))

    def _details(self, query: Query) -> Json:
        job_id = job_of(query)
        found, subtasks = self._gateway.checkpoint(job_id, int(query.path["checkpointid"]))
        return checkpoint_details(found, subtasks, self._gateway.graph(job_id).vertices)

    def _subtasks(self, query: Query) -> Json:
        job_id, vertex_id = job_of(query), JobVertexId(query.path["vertexid"])
        graph = self._gateway.graph(job_id)
        vertex = next((each for each in graph.vertices if each.vertex_id == vertex_id), None)
        if vertex is None:
            raise RestError(404, f"job {job_id} has no vertex {vertex_id}")
        found, subtasks = self._gateway.checkpoint(job_id, int(query.path["checkpointid"]))
        return subtask_details(found, subtasks, vertex)
