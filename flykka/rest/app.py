"""The ASGI application of one cluster: its endpoints, protected by access rules."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from flykka.rest.endpoint import Endpoint, open_api, routes
from flykka.rest.errors import RestError
from flykka.rest.handlers.applications import ApplicationHandlers, EndHandlers
from flykka.rest.handlers.cluster import ClusterHandlers
from flykka.rest.handlers.datasets import DatasetHandlers
from flykka.rest.handlers.events import EventHandlers
from flykka.rest.handlers.jobs import CancelHandlers, JobHandlers
from flykka.rest.handlers.log_urls import LogUrlHandlers, LogUrls
from flykka.rest.handlers.metrics import MetricHandlers
from flykka.rest.handlers.page import PageHandlers, is_page
from flykka.rest.handlers.processes import JobManagerHandlers, TaskManagerHandlers
from flykka.rest.handlers.recorder import RecorderHandlers, Recording
from flykka.rest.handlers.rescaling import RescaleHandlers, ResourceRequirementsHandlers
from flykka.rest.handlers.snapshots import CheckpointHandlers, SnapshotHandlers
from flykka.rest.handlers.vertices import VertexHandlers
from flykka.rest.history_gateway import HistoryGateway
from flykka.rest.security import Guard, Rules
from flykka.runtime.secrets import masked

if TYPE_CHECKING:
    from flykka.client.datasets import ClusterDatasets
    from flykka.rest.costly import CostlyAnswers
    from flykka.rest.gateway import RestfulGateway
    from flykka.rest.handlers.processes import ServedProcess
    from flykka.rest.operations import AsyncOperations
    from flykka.rest.responses.job_event import LastWork
    from flykka.rest.settings import RestSettings
    from flykka.runtime.recording import Recorder


PREFIX = "/flink"
_WEB = "web/"
_DAY = "public, max-age=86400"


class FlinkDashboard:
    """The files of Flink's dashboard. They contain no data of jobs, and need no token."""

    def __init__(self, jar: Path) -> None:
        self._jar = jar

    @classmethod
    def find(cls) -> FlinkDashboard | None:
        """Return the dashboard of the installed PyFlink, or None."""
        spec = find_spec("pyflink")
        for folder in () if spec is None else spec.submodule_search_locations or ():
            for jar in sorted(Path(folder, "lib").glob("flink-dist-*.jar")):
                return cls(jar)
        return None

    def routes(self) -> list[Route]:
        """Return the routes of the dashboard's files. They must come after those of the endpoints."""
        return [
            Route(PREFIX, lambda request: RedirectResponse(f"{PREFIX}/"), methods=["GET"]),
            Route(f"{PREFIX}/{{path:path}}", self._serve, methods=["GET"]),
        ]

    @cached_property
    def _files(self) -> dict[str, bytes]:
        with ZipFile(self._jar) as jar:
            names = [name for name in jar.namelist() if name.startswith(_WEB) and not name.endswith("/")]
            return {name.removeprefix(_WEB): jar.read(name) for name in names}

    def _serve(self, request: Request) -> Response:
        path = request.path_params["path"] or "index.html"
        content = self._files.get(path)
        if content is None:
            return Response(status_code=404)
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        caching = "no-cache" if path == "index.html" else _DAY
        return Response(content, headers={"Cache-Control": caching}, media_type=kind)


logger = logging.getLogger("flykka")


def rest_app(
    gateway: RestfulGateway | HistoryGateway,
    operations: AsyncOperations,
    costly: CostlyAnswers,
    settings: RestSettings,
    token: str | None,
    *,
    last_work: LastWork,
    recorder: Recorder | None,
    process: ServedProcess,
    log_urls: LogUrls,
    datasets: ClusterDatasets | None,
    now_ms: Callable[[], int],
    application_id: str,
) -> Starlette:
    endpoints = [
        # Paths of collections must come before paths with an id.
        *([] if isinstance(gateway, HistoryGateway) else TaskManagerHandlers(gateway, process).endpoints()),
        *ClusterHandlers(gateway).endpoints(),
        *JobManagerHandlers(process).endpoints(),
        *ApplicationHandlers(gateway, now_ms, application_id).endpoints(),
        *MetricHandlers(gateway, now_ms).endpoints(),
        *JobHandlers(gateway, now_ms).endpoints(),
        *VertexHandlers(gateway, process.flame_graphs, now_ms).endpoints(),
        *CheckpointHandlers(gateway).endpoints(),
        *RescaleHandlers(gateway).endpoints(),
    ]
    if isinstance(gateway, HistoryGateway):
        read_only = f"the jobs in the history of {gateway.history_of!r} have ended: commands to them are refused"
        endpoints += LogUrlHandlers(gateway, log_urls).endpoints()
    else:
        read_only = None
        endpoints += CancelHandlers(gateway).endpoints()
        endpoints += EndHandlers(gateway, application_id).endpoints()
        endpoints += SnapshotHandlers(gateway, operations).endpoints()
        endpoints += ResourceRequirementsHandlers(gateway).endpoints()
        endpoints += DatasetHandlers(datasets, operations).endpoints()
        endpoints += RecorderHandlers(gateway, Recording(recorder)).endpoints()
    page = PageHandlers(gateway, now_ms, last_work)
    endpoints.extend(page.endpoints())
    reads_need_token = settings.token_file is not None
    if read_only is not None and not reads_need_token:
        token = None  # A history refuses all requests that change something.
    description = open_api(endpoints, acts_need_token=token is not None, reads_need_token=reads_need_token)
    endpoints.append(Endpoint("/openapi.json", lambda query: description, "This description"))
    dashboard = FlinkDashboard.find()
    of_dashboard = [] if dashboard is None else [*routes(endpoints, costly, PREFIX), *dashboard.routes()]
    rules = Rules(
        token=token,
        reads_need_token=reads_need_token,
        host=settings.host,
        is_loopback=settings.is_loopback,
        is_public=is_page,
        acts=_acting(endpoints),
        read_only=read_only,
    )
    return Starlette(
        routes=[*page.routes(), *EventHandlers(gateway, now_ms).routes(), *routes(endpoints, costly), *of_dashboard],
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={RestError: _refused, HTTPException: _no_such_path, Exception: _broken},
    )


def _acting(endpoints: Sequence[Endpoint]) -> Callable[[str], bool]:
    last_parts = tuple("/" + each.path.rsplit("/", 1)[1] for each in endpoints if each.acts)
    return lambda path: path.endswith(last_parts)


async def _refused(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, RestError)
    return JSONResponse({"errors": [masked(str(raised))]}, raised.status, raised.headers)


async def _no_such_path(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, HTTPException)
    # Flink's page shows no error for a 404 without a message.
    body = {"errors": []} if raised.status_code == 404 else {"errors": [raised.detail]}
    return JSONResponse(body, raised.status_code, headers=raised.headers)


async def _broken(request: Request, raised: Exception) -> Response:
    logger.error("a request of the REST interface could not be answered: %s", request.scope["path"], exc_info=raised)
    return JSONResponse({"errors": ["Internal server error."]}, 500)
