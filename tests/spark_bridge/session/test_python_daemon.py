"""Tests that Spark's Python workers watch the attempt that they work for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from socket import socket, socketpair

import pyarrow as pa
import pytest
from pyspark import TaskContext, daemon
from pyspark.sql import SparkSession

from flykka.spark_bridge.session import python_daemon


def watches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the process id, and the number of threads that watch the attempt."""
    assert sum(batch.num_rows for batch in batches) == 1
    number = sum(thread.name == "attempt watch" for thread in threading.enumerate())
    yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "watches": [number]})


@pytest.mark.spark
def test_a_reused_worker_has_one_watch(spark: SparkSession) -> None:
    rows = spark.range(1).coalesce(1).mapInArrow(watches, "process bigint, watches bigint")

    watches_seen = [row for _ in range(5) for row in rows.collect()]

    assert len({row["process"] for row in watches_seen}) < 5
    assert {row["watches"] for row in watches_seen} == {1}


def test_a_context_without_properties_names_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", None)

    assert python_daemon._attempt(TaskContext()) is None
    assert python_daemon._attempt(None) is None


def test_a_worker_whose_task_was_cancelled_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_closed_socket(sock: socket, authenticated: bool) -> int:
        raise BrokenPipeError

    codes: list[int] = []
    ours, other = socketpair()
    monkeypatch.delenv(python_daemon.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(daemon, "worker", write_to_closed_socket)
    monkeypatch.setattr(daemon, "manager", lambda: codes.append(daemon.worker(ours, True)))

    with ours, other:
        python_daemon.main()

    assert codes == [1]
