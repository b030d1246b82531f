"""Metrics for Prometheus to scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from socket import gethostname

from flykka.metrics.collection import MOST_SUBTASKS, Scope, collected, fitting_scope
from flykka.metrics.prometheus import CONTENT_TYPE, text_of
from flykka.rest.endpoint import Endpoint, Query, Text
from flykka.rest.errors import RestError
from flykka.rest.job_info import JobInfo


class MetricHandlers:
    """Measure what runs now. Jobs that have ended are not measured."""

    def __init__(self, gateway: JobInfo, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._host = gethostname()

    def endpoints(self) -> Iterator[Endpoint]:
        """All of them."""
        yield Endpoint("/metrics", self._metrics, "Metrics of the cluster and its jobs, for Prometheus (scope)")

    def _metrics(self, query: Query) -> Text:
        jobs = self._gateway.jobs()
        fitting = fitting_scope(jobs)
        wanted = query.arguments.get("scope", fitting)
        if wanted not in list(Scope):
            raise RestError(400, f"there is no scope {wanted!r}; there are {', '.join(Scope)}")
        text = text_of(collected(self._gateway, jobs, Scope(wanted), self._host, self._now_ms()))
        if "scope" not in query.arguments and fitting is not Scope.SUBTASK:
            text += f"# More than {MOST_SUBTASKS} subtasks run: each vertex is as a whole. ?scope=subtask has each.\n"
        return Text(text=text, content_type=CONTENT_TYPE)
