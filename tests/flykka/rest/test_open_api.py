"""The OpenAPI description: arguments, bodies, media types and the token, as the server has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.flykka.rest.conftest import JOB, Served

pytestmark = pytest.mark.slow

PARTS = {"jobid": JOB, "vertexid": "sink", "id": "task-manager-1", "filename": "flykka.log"}


def operations(served: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    paths = served.http.get("/openapi.json").json()["paths"]
    return ((method, path, each) for path, methods in paths.items() for method, each in methods.items())


def operation_description(served: Served, method: str, path: str) -> dict[str, Any]:
    return next(each for m, p, each in operations(served) if (m, p) == (method, path))


def arguments(operation: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["schema"]["type"] for each in operation.get("parameters", ()) if each["in"] == "query"}


@pytest.mark.slow
def test_each_response_has_the_described_media_type(served: Served) -> None:
    checked = set()
    for method, path, operation in operations(served):
        named = path.format_map(defaultdict(lambda: "0", PARTS))
        if method != "get" or "yarn" in path:
            continue
        # The tasks never reply.
        answer = served.http.get(named, params={"timeout": 500} if "timeout" in arguments(operation) else {})
        if answer.status_code == 200:
            (media_type,) = operation["responses"]["200"]["content"]
            assert (path, answer.headers["content-type"].partition(";")[0]) == (path, media_type)
            checked.add(media_type)

    assert checked == {"application/json", "text/plain", "application/octet-stream"}


@pytest.mark.parametrize(
    ("method", "path", "names"),
    [
        ("get", "/jobs/{jobid}/exceptions", {"maxExceptions": "integer", "failureLabelFilter": "string"}),
        ("get", "/jobs/{jobid}/why", {"timeout": "integer"}),
        ("get", "/metrics", {"scope": "string"}),
        ("get", "/taskmanagers", {"offset": "integer", "limit": "integer"}),
        ("patch", "/jobs/{jobid}", {"mode": "string", "deleteCheckpoints": "boolean"}),
        ("get", "/jobs/{jobid}/vertices/{vertexid}/flamegraph", {"type": "string", "subtaskindex": "integer"}),
    ],
)
def test_the_arguments_of_a_query_are_described(served: Served, method: str, path: str, names: dict[str, str]) -> None:
    assert arguments(operation_description(served, method, path)) == names


@pytest.mark.parametrize(
    ("method", "path", "fields", "required"),
    [
        (
            "post",
            "/jobs/{jobid}/savepoints",
            {"target-directory": "string", "cancel-job": "boolean", "formatType": "string", "triggerId": "string"},
            [],
        ),
        ("post", "/savepoint-disposal", {"savepoint-path": "string", "triggerId": "string"}, ["savepoint-path"]),
        ("patch", "/jobs/{jobid}/clientHeartbeat", {"expiredTimestamp": "integer"}, ["expiredTimestamp"]),
    ],
)
def test_the_fields_of_a_body_are_described(
    served: Served, method: str, path: str, fields: dict[str, str], required: list[str]
) -> None:
    body = operation_description(served, method, path)["requestBody"]
    schema = body["content"]["application/json"]["schema"]

    assert {name: of_field["type"] for name, of_field in schema["properties"].items()} == fields
    assert (schema["required"], body["required"]) == (required, bool(required))


def test_vertex_bounds_are_described_with_both_of_their_fields(served: Served) -> None:
    body = operation_description(served, "put", "/jobs/{jobid}/resource-requirements")["requestBody"]["content"][
        "application/json"
    ]

    bounds = body["schema"]["additionalProperties"]["properties"]["parallelism"]["properties"]
    assert set(bounds) == {"lowerBound", "upperBound"}
    assert "requestBody" not in operation_description(served, "patch", "/jobs/{jobid}")


def test_each_operation_documents_the_refusal_of_a_token(served: Served) -> None:
    for _, path, operation in operations(served):
        refused = operation["responses"]["401"]["content"]["application/json"]["schema"]
        assert (path, refused) == (path, {"$ref": "#/components/schemas/Errors"})
