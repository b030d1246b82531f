"""RestServer: an HTTP server on a thread of its own, for one cluster.

It is no actor: it answers, if only that nobody else does, when all of them are stuck.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import uvicorn

from flykka.errors import ClusterError
from flykka.rest.app import rest_app
from flykka.rest.gateway import RestfulGateway
from flykka.rest.operations import AsyncOperations
from flykka.rest.security import HEADER_BYTES

if TYPE_CHECKING:
    from flykka.cluster.local_cluster import LocalCluster
    from flykka.rest.settings import RestSettings

logger = logging.getLogger("flykka")

_CONNECTIONS = 256
_STOP_SECONDS = 5.0


class RestServer:
    """Listens from `start` to `close`."""

    def __init__(self, cluster: LocalCluster, settings: RestSettings) -> None:
        """Raises `ClusterError` where the address, the token or the certificate cannot be used."""
        self._settings = settings
        self._operations = AsyncOperations()
        try:
            app = rest_app(
                RestfulGateway(cluster),
                self._operations,
                settings,
                now_ms=cluster.system.clock.now_ms,
                application_id=uuid4().hex,
            )
            self._socket = _listening(settings)
        except (OSError, ValueError) as refused:
            raise ClusterError(f"no REST interface at {settings.host}:{settings.port}: {refused}") from None
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                # What is wrong with a request is answered, and what is wrong with an answer the application logs.
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                lifespan="off",
                limit_concurrency=_CONNECTIONS,
                h11_max_incomplete_event_size=HEADER_BYTES,
                http="h11",
                ws="none",
                timeout_keep_alive=15,
                timeout_graceful_shutdown=1,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )
        self._thread = threading.Thread(target=self._run, name="flykka-rest", daemon=True)

    @property
    def address(self) -> str:
        """The URL of the page, `http://127.0.0.1:8081`."""
        host, port = self._socket.getsockname()[:2]
        named = f"[{host}]" if ":" in host else host
        return f"{self._settings.scheme}://{named}:{port}"

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more. Waits for requests that are being answered, for some seconds."""
        self._server.should_exit = True
        self._operations.close()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)
        with suppress(OSError):
            self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except BaseException:
            logger.exception("the REST interface at %s has ended", self._settings.host)


def _listening(settings: RestSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_CONNECTIONS)
    except OSError:
        listening.close()
        raise
    return listening
