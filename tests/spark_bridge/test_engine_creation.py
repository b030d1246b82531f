"""Tests that an engine is created in an actor's turn, which must not block."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from tests.spark_bridge.harness import Harness, write_rows

pytestmark = pytest.mark.spark


def test_an_engine_is_created_without_calling_the_jvm(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertices = [
        harness.source(harness.sink()),
        harness.source(name="producer"),
        harness.vertex("windows", harness.windows(), harness.sink()),
    ]
    harness.plane.global_aggregates(harness.job_id)  # The first call creates the job's session.
    commands: list[str] = []
    gateway: Any = harness.plane.session.sparkContext._gateway
    client = type(gateway._gateway_client)
    thread, send = threading.current_thread(), client.send_command

    def counted(self: Any, command: str, *others: Any, **named: Any) -> Any:
        if threading.current_thread() is thread:
            commands.append("".join(traceback.format_stack(limit=9)))
        return send(self, command, *others, **named)

    monkeypatch.setattr(client, "send_command", counted)
    for vertex in vertices:
        harness.begin(vertex)
    monkeypatch.undo()

    assert commands == []
