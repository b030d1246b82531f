"""Requests that are refused for a temporary reason are retried; all others fail at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flykka.client.rest_cluster_client import RETRY_DELAY_S, RETRY_MAX_ATTEMPTS, RestClusterClient
from flykka.errors import ClusterError
from flykka.messages.wire.ids import JobId

pytestmark = pytest.mark.slow

NOBODY_LEADS = {"errors": ["nobody leads"]}


class ScriptedServer:
    """A server with scripted responses (status and body), the last of which is repeated for ever. It records requests
    and pauses.
    """

    def __init__(self, answers: list[tuple[int, object]], retry_after: str | None) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.pauses: list[float] = []
        self.said: list[str] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                scripted.requests.append((self.path, json.loads(self.rfile.read(length) or b"{}")))
                status, body = answers.pop(0) if len(answers) > 1 else answers[0]
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status == 503 and retry_after is not None:
                    self.send_header("Retry-After", retry_after)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        port = self._server.server_address[1]
        self.client = RestClusterClient(f"127.0.0.1:{port}", on_retry=self.said.append, sleep=self.pauses.append)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    made: list[ScriptedServer] = []

    def begin(*answers: tuple[int, object], retry_after: str | None = "3") -> ScriptedServer:
        made.append(ScriptedServer(list(answers), retry_after))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def test_requests_are_retried_while_there_is_no_leader(serve: Callable[..., ScriptedServer]) -> None:
    server = serve((503, NOBODY_LEADS), (503, NOBODY_LEADS), (200, {"jobs": []}))

    assert server.client.jobs() == []
    assert server.pauses == [RETRY_DELAY_S] * 2
    assert server.said == ["nobody leads"] * 2


def test_after_twenty_attempts_the_request_fails(serve: Callable[..., ScriptedServer]) -> None:
    server = serve((503, NOBODY_LEADS))

    with pytest.raises(ClusterError, match=r"refuses the request, 20 times: nobody leads"):
        server.client.jobs()
    assert (len(server.requests), len(server.pauses)) == (RETRY_MAX_ATTEMPTS, RETRY_MAX_ATTEMPTS - 1)


def test_a_permanent_refusal_is_raised_at_once(serve: Callable[..., ScriptedServer]) -> None:
    server = serve((503, {"errors": ["another one leads"]}), retry_after=None)

    with pytest.raises(ClusterError, match="refuses the request: another one leads"):
        server.client.jobs()
    assert (len(server.requests), server.pauses, server.said) == (1, [], [])


def test_a_retried_savepoint_request_triggers_one_savepoint(serve: Callable[..., ScriptedServer]) -> None:
    done = {"status": {"id": "COMPLETED"}, "operation": {"location": "/a"}}
    server = serve((503, NOBODY_LEADS), (202, {"request-id": "r"}), (200, done))

    assert server.client.trigger_savepoint(JobId("j"), "/a") == "/a"
    first, second, _ = server.requests
    assert first == second
    assert len(first[1]["triggerId"]) == 32
