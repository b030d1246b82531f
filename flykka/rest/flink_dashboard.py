"""Apache Flink's own web dashboard, out of its released package, in front of this interface.

The package `apache-flink-libraries` has it in a jar; nothing of it is copied. Its requests are relative to where it
lies, so every endpoint is there once more, below `/flink`.
"""

from __future__ import annotations

import mimetypes
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

PREFIX = "/flink"
_WEB = "web/"
_DAY = "public, max-age=86400"


class FlinkDashboard:
    """The files of the dashboard. They are the same for everybody, and need no token."""

    def __init__(self, jar: Path) -> None:
        self._jar = jar

    @classmethod
    def find(cls) -> FlinkDashboard | None:
        """The dashboard of the package that is installed; None where none is."""
        found = find_spec("pyflink")
        for folder in () if found is None else found.submodule_search_locations or ():
            for jar in sorted(Path(folder, "lib").glob("flink-dist-*.jar")):
                return cls(jar)
        return None

    def routes(self) -> list[Route]:
        """Routes of its files; they come behind those of the endpoints."""
        return [
            Route(PREFIX, lambda request: RedirectResponse(f"{PREFIX}/"), methods=["GET"]),
            Route(f"{PREFIX}/{{path:path}}", self._serve, methods=["GET"]),
        ]

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """All of them, some megabytes, read when the first is wanted."""
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
