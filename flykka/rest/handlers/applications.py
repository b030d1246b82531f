"""The application: the program of this process, with all of its jobs. There is always exactly one application."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.metrics.measured import running
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.cluster import FLINK_VERSION
from flykka.rest.responses.configuration import cluster_configuration
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.jobs import application, application_details, application_exceptions

_ONE = "/applications/{applicationid}"


class ApplicationHandlers:
    def __init__(self, gateway: ClusterQueries, now_ms: Callable[[], int], application_id: str) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._application_id = application_id

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/applications/overview", self._overview, "The program of this process, and its jobs")
        yield Endpoint(_ONE, self._details, "The program with its jobs and times")
        yield Endpoint(f"{_ONE}/exceptions", self._exceptions, "The failures of all of its jobs")
        yield Endpoint(f"{_ONE}/jobmanager/config", self._configuration, "The settings of its cluster")

    def _overview(self, query: Query) -> Json:
        return {"applications": [application(self._application_id, self._gateway.jobs(), self._now_ms())]}

    def _details(self, query: Query) -> Json:
        check_application(query, self._application_id)
        return application_details(self._application_id, self._gateway.jobs(), self._now_ms())

    def _exceptions(self, query: Query) -> Json:
        check_application(query, self._application_id)
        return application_exceptions(
            (job.job_id, entry)
            for job in self._gateway.jobs()
            for entry in self._gateway.details(job.job_id).exceptions
        )

    def _configuration(self, query: Query) -> list[Json]:
        check_application(query, self._application_id)
        return cluster_configuration(FLINK_VERSION, self._gateway.slots())


class EndHandlers:
    def __init__(self, gateway: RestfulGateway, application_id: str) -> None:
        self._gateway = gateway
        self._application_id = application_id

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint(f"{_ONE}/cancel", self._cancel, "Cancel all jobs of the program", "POST", 202)
        yield Endpoint("/cluster", self._shut_down, "End the cluster and its jobs", "DELETE")

    def _cancel(self, query: Query) -> Json:
        check_application(query, self._application_id)
        for job in running(self._gateway.jobs()):
            self._gateway.cancel_if_running(job.job_id)
        return {}

    def _shut_down(self, query: Query) -> Json:
        self._gateway.shut_down()
        return {}


def check_application(query: Query, application_id: str) -> None:
    requested_id = query.path["applicationid"]
    if requested_id != application_id:
        raise RestError(404, f"Application {requested_id} not found")
