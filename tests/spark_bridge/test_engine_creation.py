"""Tests that an engine is created in an actor's turn, which must not block."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

from tests.spark_bridge.laboratory import Laboratory, write_rows

pytestmark = pytest.mark.spark


def test_an_engine_is_created_without_calling_the_jvm(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(laboratory.input / "0.parquet", [(1, 1, 0.0)])
    vertices = [
        laboratory.source(laboratory.sink()),
        laboratory.source(name="producer"),
        laboratory.vertex("windows", laboratory.windows(), laboratory.sink()),
    ]
    laboratory.plane.global_aggregates(laboratory.job_id)  # The first use creates the job's session.
    asked: list[str] = []
    gateway: Any = laboratory.plane.session.sparkContext._gateway
    client = type(gateway._gateway_client)
    thread, send = threading.current_thread(), client.send_command

    def counted(self: Any, command: str, *others: Any, **named: Any) -> Any:
        if threading.current_thread() is thread:
            asked.append("".join(traceback.format_stack(limit=9)))
        return send(self, command, *others, **named)

    monkeypatch.setattr(client, "send_command", counted)
    for vertex in vertices:
        laboratory.begin(vertex)
    monkeypatch.undo()

    assert asked == []
