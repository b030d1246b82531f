"""Server-sent events: sends the page its data when the data changes. The page reads events by fetch, with its token."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import JobId
from flykka.rest.errors import RestError
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.job_event import job_event, jobs_event

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

STREAMS = 32
PACE_SECONDS = 0.25
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def changes(
    ask: Callable[[], Json],
    now_ms: Callable[[], int],
    *,
    first: Json,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[bytes]:
    """Yield frames: the first response, then each changed response, and a heartbeat if nothing was sent for long.

    `now` in a frame is the time of the server, from which the page computes durations. If a query fails, a last frame
    with the event `failed` contains the reason.
    """
    answer, sent, last = first, b"", clock()
    while True:
        content = _bytes(answer)
        if content != sent:
            sent, last = content, clock()
            yield b'data: {"now":%d,%b\n\n' % (now_ms(), content[1:])
        elif clock() - last >= HEARTBEAT_SECONDS:
            last = clock()
            yield HEARTBEAT
        await sleep(PACE_SECONDS)
        try:
            answer = await run_in_threadpool(ask)
        except RestError as refused:
            yield b"event: failed\ndata: %b\n\n" % _bytes({"errors": [str(refused)], "status": refused.status})
            return


def _bytes(answer: Json) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


class EventHandlers:
    """The event streams of one server. Their number is limited."""

    def __init__(self, gateway: ClusterQueries, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms
        self._open = 0

    def routes(self) -> Iterator[Route]:
        for version in ("", "/v1"):
            yield Route(f"{version}/events", self._jobs)
            yield Route(f"{version}/jobs/{{jobid}}/events", self._job)

    async def _jobs(self, request: Request) -> Response:
        return await self._stream(lambda: jobs_event(self._gateway.jobs(), self._gateway.history_of))

    async def _job(self, request: Request) -> Response:
        return await self._stream(_JobQuery(self._gateway, JobId(request.path_params["jobid"])))

    async def _stream(self, ask: Callable[[], Json]) -> Response:
        self._open += 1
        try:
            if self._open > STREAMS:
                raise RestError(503, f"{STREAMS} event streams are open, which is the limit")
            first = await run_in_threadpool(ask)
        except BaseException:
            self._ended()
            raise
        return _Stream(changes(ask, self._now_ms, first=first), self._ended)

    def _ended(self) -> None:
        self._open -= 1


class _JobQuery:
    """A query for the events of a job. It requests the job graph only once."""

    def __init__(self, gateway: ClusterQueries, job_id: JobId) -> None:
        self._gateway = gateway
        self._job_id = job_id
        self._graph: JobGraph | None = None

    def __call__(self) -> Json:
        details = self._gateway.details(self._job_id)
        if self._graph is None:
            self._graph = self._gateway.graph(self._job_id)
        checkpoints = self._gateway.checkpoints(self._job_id)
        return job_event(details, self._graph, checkpoints, self._gateway.history_of)


class _Stream(StreamingResponse):
    """A streaming response that reports its end, even if it never started."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(content, headers=_HEADERS)
        self._when_ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._when_ended()
