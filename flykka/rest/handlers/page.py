"""The web page: static files in this package, and the attempts that the page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flykka.diagnosis.job_queries import JobQueries
from flykka.rest.endpoint import Endpoint, Query, tagged
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.job_event import LastWork, attempt_work, attempts

_FOLDER = "/page/"
_TYPES = {
    "css": "text/css; charset=UTF-8",
    "html": "text/html; charset=UTF-8",
    "js": "text/javascript; charset=UTF-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def is_page(path: str) -> bool:
    """Return whether the path belongs to the page. Its files contain no data of jobs, and ask for the token."""
    return path == "/" or path.startswith(_FOLDER)


class PageHandlers:
    def __init__(self, gateway: JobQueries, now_ms: Callable[[], int], last_work: LastWork) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._last_work = last_work
        # The files are read once, so no request can access other files.
        self._files = dict(_page())

    def routes(self) -> Iterator[Route]:
        yield Route("/", self._index)
        yield Route(f"{_FOLDER}{{name}}", self._file)

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield the endpoints of data that Flink's API does not offer."""
        vertex = "/jobs/{jobid}/vertices/{vertexid}"
        yield Endpoint(f"{vertex}/attempts", self._attempts, "The newest attempts of a vertex, earlier ones too")
        work = f"{vertex}/subtasks/{{subtask:int}}/work"
        yield Endpoint(work, self._work, "The last stages of the newest attempt of a subtask, with their Spark jobs")

    async def _index(self, request: Request) -> Response:
        return self._serve("index.html", request)

    async def _file(self, request: Request) -> Response:
        return self._serve(request.path_params["name"], request)

    def _serve(self, name: str, request: Request) -> Response:
        file = self._files.get(name)
        if file is None:
            raise RestError(404, "File not found.")
        return tagged(*file, request, _HEADERS)

    def _attempts(self, query: Query) -> Json:
        return attempts(*self._gateway.vertex(query.job_id, query.vertex_id))

    def _work(self, query: Query) -> Json:
        job_id, vertex_id, subtask = query.job_id, query.vertex_id, int(query.path["subtask"])
        vertex, _ = self._gateway.vertex(job_id, vertex_id)
        if subtask >= vertex.parallelism:
            raise RestError(404, f"vertex {vertex_id} of job {job_id} has no subtask {subtask}")
        work = self._last_work(job_id, vertex_id, subtask)
        if work is None:
            raise RestError(404, f"the stages of subtask {subtask} are unknown: its job has ended")
        return attempt_work(work, self._now_ms())


def _page() -> Iterator[tuple[str, tuple[bytes, str]]]:
    for file in files("flykka.rest").joinpath("page").iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            yield file.name, (file.read_bytes(), content_type)
