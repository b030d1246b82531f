"""Tests that a job reads a socket until the server closes it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, StreamExecutionEnvironment
from flykka.spark_bridge.connectors.socket_text import SocketTextSource

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

_PATIENCE_S = 60.0


def test_a_job_ends_after_the_last_line(spark: SparkSession, tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        StreamExecutionEnvironment.get_execution_environment() as env,
    ):
        server.settimeout(_PATIENCE_S)
        env.enable_checkpointing("200ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        lines = env.from_source(SocketTextSource("127.0.0.1", server.getsockname()[1]), uid="lines")
        lines.select_expr("upper(value) AS value").sink_to(FileSink.json(str(tmp_path / "lines"))).uid("out")
        client = env.execute_async("lines")
        connection, _ = server.accept()
        with connection:
            for number in range(50):
                connection.sendall(f"line {number}\nthen".encode())
        client.wait(timeout=_PATIENCE_S)

    written = "".join(path.read_text() for path in tmp_path.glob("lines/*.json")).splitlines()
    expected = ["LINE 0", *(f"THENLINE {number}" for number in range(1, 50)), "THEN"]
    assert sorted(json.loads(line)["value"] for line in written) == sorted(expected)
