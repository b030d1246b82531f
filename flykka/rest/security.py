"""Refuses requests before a handler runs: unauthorized, cross-site, too large or too slow requests.

Browsers report the origin of a request (`Origin`, `Sec-Fetch-Site`), which another site cannot forge. Other clients
report no origin. They are trusted like the user on whose machine they run, or have the token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse

from flykka.rest.endpoint import SAFE_METHODS
from flykka.rest.errors import RestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = 64 * 1024
HEADER_BYTES = 16 * 1024
REQUEST_SECONDS = 30.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The access rules. `token` is the token that requests need, `host` the host of the server.

    Requests that change nothing need the token only if `reads_need_token`. Paths for which `is_public` returns True,
    like the page, are open to all. `acts` returns True for paths whose GET requests change something. If `read_only` is
    set, all changes are refused with this message.
    """

    token: str | None
    host: str
    is_loopback: bool
    is_public: Callable[[str], bool] = lambda path: False
    acts: Callable[[str], bool] = lambda path: False
    read_only: str | None = None
    reads_need_token: bool = False

    def check(self, request: Request) -> None:
        if sum(len(name) + len(value) for name, value in request.scope["headers"]) > HEADER_BYTES:
            raise RestError(431, f"the headers of a request may have at most {HEADER_BYTES} bytes")
        if {"content-length", "transfer-encoding"}.issubset(request.headers.keys()):
            # A proxy might disagree about where this request ends.
            raise RestError(400, "a request has either Content-Length or Transfer-Encoding", closes=True)
        path: str = request.scope["path"]
        self._check_host(request)
        acts = request.method not in SAFE_METHODS or self.acts(path)
        if self.token is not None and (acts or (self.reads_need_token and not self.is_public(path))):
            self._check_token(request, self.token)
        if acts:
            self._check_origin(request)
            if self.read_only is not None:
                raise RestError(405, self.read_only)

    def _check_host(self, request: Request) -> None:
        # Another site might resolve its own host name to the loopback address.
        try:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        except ValueError:
            raise RestError(400, "the Host header of the request cannot be parsed") from None
        if self.is_loopback and name not in _LOOPBACK | {self.host}:
            raise RestError(403, f"a request for the host {name!r} is refused: this server is {self.host}")

    def _check_token(self, request: Request, token: str) -> None:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(credentials.strip().encode(), token.encode()):
            what = "this request" if self.reads_need_token else "a request that changes something"
            raise RestError(
                401,
                f"{what} needs a token, in the header `Authorization: Bearer TOKEN`: `flykka token` prints that of a"
                " job of yours on this machine",
            )

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        own = f"{request.scope['scheme']}://{request.headers.get('host')}"
        if origin is not None and origin != own:
            raise RestError(403, f"a request from {origin} is refused: only {own} may change something")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise RestError(403, "a request from another site is refused")


class Guard:
    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Limit the size of the body and the time of the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def forward(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            self._rules.check(Request(scope))
            body = await _whole_body(receive)
            if body is None:
                return
            streams = scope["path"].endswith(("/events", "/recorder/trace"))
            async with asyncio.timeout(None if streams else REQUEST_SECONDS):
                await self._app(scope, _once(body, receive), forward)
        except RestError as refused:
            await _answer(refused, scope, receive, send)
        except TimeoutError:
            if not started:
                await _answer(RestError(503, f"no answer in {REQUEST_SECONDS:.0f} s"), scope, receive, send)


async def _whole_body(receive: Receive) -> bytes | None:
    """Return the body, or None if the client disconnects before it is complete. The connection sets the deadline."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > BODY_BYTES:
            raise RestError(413, f"a request may have at most {BODY_BYTES} bytes")
        if not message.get("more_body"):
            return body


def _once(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` function that yields the body first, then further messages of the connection."""
    is_sent = False

    async def next_message() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _answer(refused: RestError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = JSONResponse({"errors": [str(refused)]}, refused.status, refused.headers)
    if refused.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    await answer(scope, receive, send)
