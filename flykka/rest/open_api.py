"""The description of the interface by OpenAPI, made of the endpoints themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from flykka.rest.endpoint import Endpoint

_PART = re.compile(r"{(?P<name>\w+)(:(?P<type>\w+))?}")


def open_api(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The description; every path is there below `/v1` too."""
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        path = _PART.sub(r"{\g<name>}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each)
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
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
    made: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {
            str(endpoint.status): {"description": "The answer", "content": {"application/json": {}}},
            "default": {"description": "What is wrong", "content": refused},
        },
    }
    parameters = [_parameter(part) for part in _PART.finditer(endpoint.path)]
    if endpoint.pages is not None:
        parameters += [{"name": name, "in": "query", "schema": {"type": "integer"}} for name in ("offset", "limit")]
    if parameters:
        made["parameters"] = parameters
    if endpoint.method == "POST":
        made["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return made


def _parameter(part: re.Match[str]) -> dict[str, Any]:
    kind = "integer" if part["type"] == "int" else "string"
    return {"name": part["name"], "in": "path", "required": True, "schema": {"type": kind}}
