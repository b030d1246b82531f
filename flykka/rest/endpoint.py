"""Endpoints: path, method, handler, response format, and OpenAPI description."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.rest.costly import Costly, CostlyAnswers
from flykka.rest.errors import RestError

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"
TEXT = "text/plain"
FILE = "application/octet-stream"
_PART_BYTES = 64 * 1024
_TYPE = f"{JSON}; charset=UTF-8"
_TEXT = f"{TEXT}; charset=UTF-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    path: Mapping[str, str]
    arguments: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def job_id(self) -> JobId:
        return JobId(self.path["jobid"])

    @property
    def vertex_id(self) -> JobVertexId:
        return JobVertexId(self.path["vertexid"])

    def text(self, name: str) -> str | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise RestError(400, f"{name!r} must be a string, not {value!r}")
        return value

    def flag(self, name: str) -> bool:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise RestError(400, f"{name!r} must be true or false, not {value!r}")
        return bool(value)

    def number(self, name: str, default: int) -> int:
        value = self.arguments.get(name)
        if value is None:
            return default
        if not value.isdecimal() or len(value) > 9:
            raise RestError(400, f"{name!r} must be a whole number, not {value!r}")
        return int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str
    content_type: str = _TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A response with the first `size` bytes of an open file. It is displayed, or saved if it has a name."""

    file: BinaryIO
    size: int
    name: str | None

    def parts(self) -> Iterator[bytes]:
        with self.file:
            rest = self.size
            while rest and (part := self.file.read(min(rest, _PART_BYTES))):
                rest -= len(part)
                yield part


Handler = Callable[[Query], Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and its handler, which may block.

    The handler returns JSON values, a `Text`, a `Download`, or a `Costly` if the response is slow. `status` is the
    status of a successful response. The handler's query contains only the arguments and body fields that are declared
    here.
    """

    path: str
    handler: Handler
    summary: str
    method: str = "GET"
    status: int = 200
    acts: bool = field(default=False, kw_only=True)
    """True for a GET that changes something. Flink has such requests."""
    pages: str | None = field(default=None, kw_only=True)
    """The field with a possibly long list. `offset` and `limit` select a page of the list, and `total` is its length.
    """
    arguments: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """The types of the query arguments, as in JSON Schema."""
    body: Mapping[str, Any] | None = field(default=None, kw_only=True)
    gives: str = field(default=JSON, kw_only=True)

    @property
    def changes(self) -> bool:
        return self.acts or self.method not in SAFE_METHODS

    @property
    def every_argument(self) -> dict[str, str]:
        return {**self.arguments, **({} if self.pages is None else {"offset": "integer", "limit": "integer"})}

    def query(self, path: Mapping[str, Any], arguments: Mapping[str, str], body: Mapping[str, Any]) -> Query:
        schema = self.body or {}
        of_body = body if "additionalProperties" in schema else _only(body, schema.get("properties", {}))
        return Query(path=path, arguments=_only(arguments, self.every_argument), body=of_body)


def fields(required: Iterable[str] = (), **types: str) -> dict[str, Any]:
    """Return the JSON Schema of an object with these fields. `_` in a name stands for `-`."""
    properties = {name.replace("_", "-"): {"type": of_field} for name, of_field in types.items()}
    return {"type": "object", "properties": properties, "required": [*required]}


def _only(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def routes(endpoints: Iterable[Endpoint], costly: CostlyAnswers, prefix: str = "") -> list[Route]:
    """Return two routes for each endpoint, with and without the API version."""
    return [
        Route(f"{prefix}{version}{each.path}", _serve(each, costly), methods=[each.method])
        for each in endpoints
        for version in ("", "/v1")
    ]


def _serve(endpoint: Endpoint, costly: CostlyAnswers) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        query = endpoint.query(request.path_params, request.query_params, _body(await request.body()))
        answer = await run_in_threadpool(endpoint.handler, query)
        if isinstance(answer, Costly):
            # The computation is shielded from cancellation, because other requests may be waiting for it.
            answer = await asyncio.shield(asyncio.wrap_future(costly.begin(answer)))
        if endpoint.pages is not None:
            answer = _part(answer, endpoint.pages, query)
        if isinstance(answer, Text):
            return PlainTextResponse(answer.text, endpoint.status, media_type=answer.content_type)
        if isinstance(answer, Download):
            return _download(answer)
        return _json(answer, endpoint.status, request)

    return serve


def _part(answer: Any, name: str, query: Query) -> Any:
    if not {"offset", "limit"} & set(query.arguments):
        return answer
    every, offset = answer[name], query.number("offset", 0)
    return {**answer, name: every[offset : offset + query.number("limit", len(every))], "total": len(every)}


def _download(download: Download) -> Response:
    headers = {"Cache-Control": "no-store", "Content-Length": str(download.size)}
    if download.name is None:
        return StreamingResponse(download.parts(), headers=headers, media_type=_TEXT)
    headers["Content-Disposition"] = f'attachment; filename="{download.name}"'
    return StreamingResponse(download.parts(), headers=headers, media_type=FILE)


def _body(content: bytes) -> Mapping[str, Any]:
    if not content.strip():
        return {}
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise RestError(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise RestError(400, "the body must be an object")
    return body


def _json(answer: Any, status: int, request: Request) -> Response:
    content = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {"Cache-Control": "no-cache"}
    if request.method == "GET" and status == 200:
        return tagged(content, _TYPE, request, headers)
    return Response(content, status, headers, media_type=_TYPE)


def tagged(content: bytes, content_type: str, request: Request, headers: Mapping[str, str]) -> Response:
    """Return a response with an ETag. Its content is omitted if the client has this version already."""
    tag = f'W/"{blake2b(content, digest_size=12).hexdigest()}"'
    with_tag = {**headers, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=with_tag)
    return Response(content, headers=with_tag, media_type=content_type)


_PART = re.compile(r"{(?P<name>\w+)(:(?P<type>\w+))?}")
_TYPES = {None: "string", "int": "integer"}
_REFUSED = {JSON: {"schema": {"$ref": "#/components/schemas/Errors"}}}


def open_api(
    endpoints: Iterable[Endpoint], *, acts_need_token: bool = False, reads_need_token: bool = False
) -> dict[str, Any]:
    """Return the OpenAPI description. Every path also exists below `/v1`."""
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        path = _PART.sub(r"{\g<name>}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each)
        if acts_need_token and each.changes:
            paths[path][each.method.lower()]["security"] = [{"token": []}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "flykka", "version": version("flykka"), "description": "In the shape of Flink's REST API."},
        "servers": [{"url": "/v1"}, {"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Errors": {
                    "type": "object",
                    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
                    "required": ["errors"],
                }
            },
        },
        **({"security": [{"token": []}]} if reads_need_token else {}),
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    description: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {
            str(endpoint.status): {
                "description": "The answer",
                "content": {endpoint.gives: {"schema": _answer(endpoint)}},
            },
            "401": {"description": "A token is needed", "content": _REFUSED},
            "default": {"description": "What is wrong", "content": _REFUSED},
        },
    }
    parameters = [_parameter(part["name"], _TYPES[part["type"]], "path") for part in _PART.finditer(endpoint.path)]
    parameters += [_parameter(name, of_name, "query") for name, of_name in endpoint.every_argument.items()]
    if parameters:
        description["parameters"] = parameters
    if endpoint.body is not None:
        required = bool(endpoint.body.get("required"))
        description["requestBody"] = {"required": required, "content": {JSON: {"schema": endpoint.body}}}
    return description


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    return {} if endpoint.gives == JSON else {"type": "string"}


def _parameter(name: str, of_name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": of_name}}
