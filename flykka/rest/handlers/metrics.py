"""Metrics for Prometheus to scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from socket import gethostname

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.metrics.measured import Measured, of_cluster, of_job, of_vertex
from flykka.metrics.prometheus import CONTENT_TYPE, text_of
from flykka.rest.endpoint import Endpoint, Query, Text
from flykka.rest.gateway import RestfulGateway


class MetricHandlers:
    """Measure what runs now. Jobs that have ended are not measured."""

    def __init__(self, gateway: RestfulGateway, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._host = gethostname()

    def endpoints(self) -> Iterator[Endpoint]:
        """All of them."""
        yield Endpoint("/metrics", self._metrics, "Metrics of the cluster and its jobs, for Prometheus")

    def _metrics(self, query: Query) -> Text:
        return Text(text=text_of(self._measured()), content_type=CONTENT_TYPE)

    def _measured(self) -> Iterator[Measured]:
        jobs = self._gateway.jobs()
        yield from of_cluster(self._gateway.slots(), jobs, self._host)
        for job_id in (job.job_id for job in jobs if job.status not in JOB_GLOBALLY_TERMINAL):
            details = self._gateway.details(job_id)
            yield from of_job(details, self._gateway.checkpoints(job_id), self._host, self._now_ms())
            for vertex in details.vertices:
                found, subtasks = self._gateway.vertex(job_id, vertex.vertex_id)
                yield from of_vertex(details, found, subtasks, self._host, self._now_ms())
