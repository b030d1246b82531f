"""The description of the interface by OpenAPI, made of the endpoints themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from flykka.rest.endpoint import JSON, Endpoint

_PART = re.compile(r"{(?P<name>\w+)(:(?P<type>\w+))?}")
_TYPES = {None: "string", "int": "integer"}
_REFUSED = {JSON: {"schema": {"$ref": "#/components/schemas/Errors"}}}


def open_api(
    endpoints: Iterable[Endpoint], *, acts_need_token: bool = False, reads_need_token: bool = False
) -> dict[str, Any]:
    """The description; every path is there below `/v1` too."""
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
    made: dict[str, Any] = {
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
        made["parameters"] = parameters
    if endpoint.body is not None:
        required = bool(endpoint.body.get("required"))
        made["requestBody"] = {"required": required, "content": {JSON: {"schema": endpoint.body}}}
    return made


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    return {} if endpoint.gives == JSON else {"type": "string"}


def _parameter(name: str, of_name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": of_name}}
