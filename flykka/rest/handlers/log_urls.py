"""URLs for the logs of ended jobs, created from patterns (Flink's `historyserver.log.*.url-pattern`).

Archives contain no logs. If a service stores the logs of all drivers, the patterns describe the service's URLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from flykka.diagnosis.job_queries import JobQueries
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUrls:
    """URL patterns with placeholders `<jobid>` and `<tmid>` for a job and a TaskManager. None if there is no service.

    Raises:
        ValueError: a pattern is not an HTTP URL.
    """

    job_manager: str | None = None
    task_manager: str | None = None

    def __post_init__(self) -> None:
        for pattern in (self.job_manager, self.task_manager):
            if pattern is not None and not pattern.startswith(("http://", "https://")):
                raise ValueError(f"{pattern!r} is not a pattern of a URL: it begins with http:// or https://")


class LogUrlHandlers:
    """Returns URLs of logs. The history has checked that the job exists."""

    def __init__(self, gateway: JobQueries, urls: LogUrls) -> None:
        self._gateway = gateway
        self._urls = urls

    def endpoints(self) -> Iterator[Endpoint]:
        job = "/jobs/{jobid}"
        yield Endpoint(f"{job}/jobmanager/log-url", self._of_job_manager, "The URL of the log of its driver")
        one = f"{job}/taskmanagers/{{taskmanagerid}}/log-url"
        yield Endpoint(one, self._of_task_manager, "The URL of the log of a TaskManager")

    def _of_job_manager(self, query: Query) -> Json:
        return self._url(query, self._urls.job_manager, {})

    def _of_task_manager(self, query: Query) -> Json:
        return self._url(query, self._urls.task_manager, {"<tmid>": query.path["taskmanagerid"]})

    def _url(self, query: Query, pattern: str | None, places: Mapping[str, str]) -> Json:
        job_id = query.job_id
        self._gateway.details(job_id)
        if pattern is None:
            raise RestError(404, "no pattern for URLs of logs is set: flykka history --log-url, --task-manager-log-url")
        for place, name in {"<jobid>": job_id, **places}.items():
            pattern = pattern.replace(place, quote(name, safe=""))
        return {"url": pattern}
