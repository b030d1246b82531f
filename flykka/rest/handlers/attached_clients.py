"""Requests of a client that is attached to its job: its signs of life, and the result that it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.diagnosis.job_queries import JobQueries
from flykka.rest.endpoint import Endpoint, Query, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.jobs import job_of
from flykka.rest.responses.execution_result import execution_result
from flykka.rest.responses.io_metrics import Json


class ResultHandlers:
    """Tell how jobs have ended."""

    def __init__(self, gateway: JobQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/jobs/{jobid}/execution-result", self._result, "How a job has ended, if it has")

    def _result(self, query: Query) -> Json:
        return execution_result(self._gateway.details(job_of(query)))


class ClientHeartbeatHandlers:
    """Hand signs of life of clients to the JobManager."""

    def __init__(self, gateway: RestfulGateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        what = "A sign of life of a job's client: the job is cancelled at its expiredTimestamp, unless it comes again"
        body = fields(["expiredTimestamp"], expiredTimestamp="integer")
        yield Endpoint("/jobs/{jobid}/clientHeartbeat", self._heartbeat, what, "PATCH", 202, body=body)

    def _heartbeat(self, query: Query) -> Json:
        expires_ms = query.body.get("expiredTimestamp")
        if not isinstance(expires_ms, int) or isinstance(expires_ms, bool) or expires_ms < 0:
            raise RestError(400, f"'expiredTimestamp' must be a time in ms since the epoch, not {expires_ms!r}")
        self._gateway.report_client_heartbeat(job_of(query), expires_ms)
        return {}
