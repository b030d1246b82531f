"""RestServer: an HTTP server on its own thread, for one cluster or history.

The server is not an actor, so it responds even if all actors hang.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import uvicorn

from flykka.errors import ClusterError
from flykka.rest.app import rest_app
from flykka.rest.connections import HEAD_SECONDS, BoundedProtocol, Connections
from flykka.rest.costly import CostlyAnswers
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.log_urls import LogUrls
from flykka.rest.handlers.processes import ServedProcess
from flykka.rest.operations import AsyncOperations
from flykka.rest.process.metrics import ReadJvm, no_jvm
from flykka.rest.responses.job_event import LastWork, no_work
from flykka.rest.security import HEADER_BYTES
from flykka.runtime.secrets import remember_secrets

if TYPE_CHECKING:
    from flykka.client.datasets import ClusterDatasets
    from flykka.cluster.local_cluster import LocalCluster
    from flykka.rest.history_gateway import HistoryGateway
    from flykka.rest.settings import RestSettings
    from flykka.runtime.recording import Recorder

logger = logging.getLogger("flykka")

_CONNECTIONS = 256
_STOP_SECONDS = 5.0


class RestServer:
    """A server that binds its address on creation, and responds from `start` to `close`."""

    def __init__(self, settings: RestSettings) -> None:
        """Bind the address. Raises `ClusterError` if the address, the token or the certificate cannot be used."""
        self._settings = settings
        self._operations = AsyncOperations()
        self._costly = CostlyAnswers()
        self._process = ServedProcess()
        try:
            token = settings.token()
            if settings.certificate is not None:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key)
            self._socket = _listening(settings)
        except (OSError, ValueError) as refused:
            raise ClusterError(f"no REST interface at {settings.host}:{settings.port}: {refused}") from None
        self.token = token or (None if settings.no_token else token_urlsafe(24))
        """The token for requests that change something, or None if no token is needed."""
        remember_secrets({"token": self.token})
        self.address = _url(settings.scheme, *self._socket.getsockname()[:2])
        """The URL of the page, such as `http://127.0.0.1:8081`."""
        self._running: tuple[uvicorn.Server, threading.Thread] | None = None

    def start(
        self,
        cluster: LocalCluster,
        last_work: LastWork = no_work,
        read_jvm: ReadJvm = no_jvm,
        datasets: ClusterDatasets | None = None,
    ) -> None:
        """Start to serve requests about this cluster.

        `last_work` returns the data plane's work for a subtask, `read_jvm` measures the data plane's JVM, and
        `datasets` are cached streams.
        """
        system = cluster.system
        self._process = replace(self._process, read_jvm=read_jvm)
        self._answer(RestfulGateway(cluster), system.clock.now_ms, last_work, system.recorder, datasets=datasets)

    def start_history(self, history: HistoryGateway, log_urls: LogUrls | None = None) -> None:
        """Start to serve requests about ended jobs. `log_urls` are the URLs of their logs."""
        self._answer(history, history.now_ms, no_work, None, log_urls)

    def _answer(
        self,
        gateway: RestfulGateway | HistoryGateway,
        now_ms: Callable[[], int],
        last_work: LastWork,
        recorder: Recorder | None,
        log_urls: LogUrls | None = None,
        datasets: ClusterDatasets | None = None,
    ) -> None:
        app = rest_app(
            gateway,
            self._operations,
            self._costly,
            self._settings,
            self.token,
            last_work=last_work,
            recorder=recorder,
            process=self._process,
            log_urls=log_urls or LogUrls(),
            datasets=datasets,
            now_ms=now_ms,
            application_id=uuid4().hex,
        )
        pool = Connections(per_peer=self._settings.most_connections_per_peer)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                # Bad requests get a response, and the application logs its own errors.
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                lifespan="off",
                limit_concurrency=_CONNECTIONS,
                h11_max_incomplete_event_size=HEADER_BYTES,
                http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, pool=pool)),
                ws="none",
                timeout_keep_alive=15,
                timeout_graceful_shutdown=1,
                ssl_certfile=self._settings.certificate,
                ssl_keyfile=self._settings.key,
            )
        )
        thread = threading.Thread(target=self._run, args=(server,), name="flykka-rest", daemon=True)
        self._running = server, thread
        self._process.open()
        thread.start()

    def close(self) -> None:
        """Stop listening, and wait some seconds for requests in progress."""
        self._operations.close()
        self._costly.close()
        self._process.close()
        if self._running is not None:
            server, thread = self._running
            server.should_exit = True
            thread.join(_STOP_SECONDS)
        with suppress(OSError):
            self._socket.close()

    def _run(self, server: uvicorn.Server) -> None:
        try:
            with asyncio.Runner(loop_factory=_Loop) as runner:
                runner.run(server.serve(sockets=[self._socket]))
        except BaseException:
            logger.exception("the REST interface at %s has ended", self._settings.host)


class _Loop(asyncio.SelectorEventLoop):
    """Limits the TLS handshake, which precedes the HTTP protocol, to the time of a request head."""

    async def create_server(self, *args: Any, **more: Any) -> asyncio.Server:
        if more.get("ssl") is not None:
            more |= {"ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": 1}
        return await super().create_server(*args, **more)


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


def _url(scheme: str, host: str, port: int) -> str:
    if ip_address(host).is_unspecified:
        # The server listens on all addresses of this machine. Other machines know the machine by its name.
        host = socket.gethostname()
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}"
