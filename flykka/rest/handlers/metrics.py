"""Serves metrics: all for Prometheus, those of jobs by name, and those of operator coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from socket import gethostname

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.messages.wire.ids import JobId
from flykka.metrics.collection import MOST_SUBTASKS, Scope, collected, fitting_scope
from flykka.metrics.measured import numbers, of_job, running
from flykka.metrics.prometheus import CONTENT_TYPE, text_of
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import TEXT, Endpoint, Query, Text
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.metrics import aggregated, coordinator_metrics, listed


class MetricHandlers:
    """Returns the metrics of running jobs, and of ended jobs if a request names them."""

    def __init__(self, gateway: ClusterQueries, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._host = gethostname()

    def endpoints(self) -> Iterator[Endpoint]:
        what, scope = "Metrics of the cluster and its jobs, for Prometheus", {"scope": "string"}
        yield Endpoint("/metrics", self._metrics, what, arguments=scope, gives=TEXT)
        over = {"get": "string", "agg": "string", "jobs": "string"}
        yield Endpoint("/jobs/metrics", self._of_jobs, "Metrics over the jobs", arguments=over)
        yield Endpoint("/jobs/{jobid}/metrics", self._of_job, "Metrics of a job", arguments={"get": "string"})
        yield Endpoint(
            "/jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics",
            self._of_coordinator,
            "Metrics of the operator coordinator of a vertex",
            arguments={"get": "string"},
        )

    def _of_jobs(self, query: Query) -> list[Json]:
        job_list = query.arguments.get("jobs")
        if job_list is None:
            job_ids = [job.job_id for job in running(self._gateway.jobs())]
        else:
            job_ids = [JobId(job_id) for job_id in job_list.split(",")]
        measured = [self._measured(job_id) for job_id in job_ids]
        return aggregated(measured, query.arguments.get("get"), query.arguments.get("agg"))

    def _of_job(self, query: Query) -> list[Json]:
        return listed(self._measured(query.job_id), query.arguments.get("get"))

    def _measured(self, job_id: JobId) -> dict[str, float]:
        details, checkpoints = self._gateway.details(job_id), self._gateway.checkpoints(job_id)
        return numbers(of_job(details, checkpoints, self._host, self._now_ms()).values)

    def _of_coordinator(self, query: Query) -> list[Json]:
        vertex, _ = self._gateway.vertex(query.job_id, query.vertex_id)
        return coordinator_metrics(vertex, query.arguments.get("get"))

    def _metrics(self, query: Query) -> Costly:
        scope = query.arguments.get("scope")
        if scope not in [None, *Scope]:
            raise RestError(400, f"there is no scope {scope!r}; there are {', '.join(Scope)}")
        return Costly(cost=Cost.ACTORS, make=lambda: self._measure(scope), key=("metrics", scope))

    def _measure(self, scope: str | None) -> Text:
        jobs = self._gateway.jobs()
        fitting = fitting_scope(jobs)
        text = text_of(collected(self._gateway, jobs, Scope(scope or fitting), self._host, self._now_ms()))
        if scope is None and fitting is not Scope.SUBTASK:
            text += (
                f"# More than {MOST_SUBTASKS} subtasks are running: values are per vertex. ?scope=subtask shows each.\n"
            )
        return Text(text=text, content_type=CONTENT_TYPE)
