"""Rescaling: the bounds of a job's parallelism, and the history of what came of them."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.control.rescaling import RescalesSnapshot
from flykka.rest.endpoint import Endpoint, Query, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.rescales import (
    read_requirements,
    rescale_config,
    rescale_details,
    rescales_history,
    rescales_overview,
    rescales_summary,
    resource_requirements,
)

_BOUNDS = {"lowerBound": "integer", "upperBound": "integer"}


class RescaleHandlers:
    def __init__(self, gateway: JobQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        rescales = "/jobs/{jobid}/rescales"
        yield Endpoint(f"{rescales}/overview", self._overview, "The rescales of a job: counts, and the last ones")
        yield Endpoint(f"{rescales}/history", self._history, "The last rescales of a job, the newest first")
        yield Endpoint(f"{rescales}/summary", self._summary, "How long the rescales of a job took")
        yield Endpoint(f"{rescales}/config", self._config, "What the rescales of a job go by")
        yield Endpoint(f"{rescales}/details/{{rescaleuuid}}", self._details, "A rescale of a job")

    def _overview(self, query: Query) -> Json:
        return rescales_overview(self._rescales(query))

    def _history(self, query: Query) -> list[Json]:
        return rescales_history(self._rescales(query))

    def _summary(self, query: Query) -> Json:
        return rescales_summary(self._rescales(query))

    def _config(self, query: Query) -> Json:
        return rescale_config(self._gateway.graph(query.job_id))

    def _details(self, query: Query) -> Json:
        wanted = query.path["rescaleuuid"]
        for rescale in self._rescales(query).rescales:
            if rescale.rescale_id == wanted:
                return rescale_details(rescale)
        raise RestError(404, f"rescale {wanted} of job {query.job_id} is not kept")

    def _rescales(self, query: Query) -> RescalesSnapshot:
        return self._gateway.rescales(query.job_id)


class ResourceRequirementsHandlers:
    def __init__(self, gateway: RestfulGateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        path = "/jobs/{jobid}/resource-requirements"
        yield Endpoint(path, self._requirements, "The bounds of the parallelism of each vertex of a job")
        bounds = fields(["parallelism"]) | {"properties": {"parallelism": fields(**_BOUNDS)}}
        body = {"type": "object", "additionalProperties": bounds}
        yield Endpoint(
            path, self._update, "Rescale a job: other bounds for its vertices, by their ids", "PUT", body=body
        )

    def _requirements(self, query: Query) -> Json:
        return resource_requirements(self._gateway.requirements(query.job_id))

    def _update(self, query: Query) -> Json:
        self._gateway.update_requirements(query.job_id, read_requirements(query.body))
        return {}
