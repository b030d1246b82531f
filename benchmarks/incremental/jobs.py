"""A job of several queries over the streams of changes of their tables, fed step by step."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from flykka import DataStream, FileSink, FileSource, JobClient, StreamExecutionEnvironment
from flykka.errors import CheckpointError, SqlError
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.tasks.task import ExecutionState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.incremental.data import Data
    from flykka.messages.wire.ids import ExecutionAttemptId
    from flykka.messages.wire.message import Message

BATCH, PLACE = "__batch", "__place"
"""Columns that order the rows of an output: they number the batches, and the rows of a batch."""

_DISCOVERY_INTERVAL = "100ms"
_WAIT_S = 600.0
_CHECKPOINT = re.compile(r"-(\d+)-\d+-[0-9a-f]{8}-[0-9a-f]{4}-")
"""The number of the checkpoint in the name of a published file."""


class JobEndedError(Exception):
    """The job has ended before it has read a step."""


class Steps:
    """Streams of changes whose files arrive step by step, and the step that each of them has reached."""

    def __init__(self, data: Data, tables: Iterable[str], folder: Path) -> None:
        """Let the streams of these tables read files in folders below `folder`."""
        self._data = data
        self._tables = tuple(tables)
        self._folder = folder
        self._changed = threading.Condition()
        self._reached = dict.fromkeys(self._tables, -1)

    def create_views(self, env: StreamExecutionEnvironment) -> None:
        for table in self._tables:
            inbox = self._folder / table
            inbox.mkdir(parents=True, exist_ok=True)
            schema = env.spark.read.parquet(str(self._data.changes(table, 0))).schema
            files = FileSource.parquet(str(inbox), schema=schema).files_per_batch(1)
            source = env.from_source(
                files.monitor_continuously(_DISCOVERY_INTERVAL), name=table, uid=table
            ).set_parallelism(1)
            read = source.transform(partial(self._note, table), per_batch=True).set_parallelism(1).uid(f"{table} read")
            env.create_temporary_view(table, read, primary_key=self._data.suite.keys[table], changelog_mode="all")

    def put(self, step: int) -> None:
        for table in self._changing(step):
            path = self._data.changes(table, step)
            hidden = self._folder / table / f".{path.name}"
            shutil.copyfile(path, hidden)
            hidden.rename(hidden.with_name(path.name))

    def wait_until_read(self, step: int, client: JobClient) -> None:
        """Wait until the streams have read the files of a step.

        Raises:
            JobEndedError: the job has ended.
        """
        with self._changed:
            while any(self._reached[table] < step for table in self._changing(step)):
                self._changed.wait(timeout=0.1)
                if client.done():
                    raise JobEndedError(str(client.exception_history))

    def forget(self, step: int) -> None:
        """Expect the files of a step to be read again."""
        with self._changed:
            self._reached = {table: min(reached, step - 1) for table, reached in self._reached.items()}

    def _changing(self, step: int) -> list[str]:
        return [table for table in self._tables if self._data.changes(table, step).exists()]

    def _note(self, table: str, rows: DataFrame) -> DataFrame:
        read = [int(name.rsplit("/", 1)[-1].split(".")[0]) for name in rows.inputFiles()]
        with self._changed:
            self._reached[table] = max([self._reached[table], *read])
            self._changed.notify_all()
        return rows


class Job:
    """A job of queries that run over the same steps; each writes its changes into a folder."""

    def __init__(self, steps: Steps, queries: Mapping[str, str], folder: Path) -> None:
        self._steps = steps
        self._queries = queries
        self._folder = folder
        self._numbers = count()
        self._changed = threading.Condition()
        self._running: dict[ExecutionAttemptId, str] = {}
        self.streams: dict[str, DataStream] = {}
        self.refusals: dict[str, str] = {}
        self.checkpoints: dict[int, int] = {}
        """The checkpoint after each step."""

    def define(self, env: StreamExecutionEnvironment) -> None:
        """Define the streams and sinks; `refusals` has the reasons why queries cannot run."""
        self.streams.clear()
        self._steps.create_views(env)
        for name, text in self._queries.items():
            try:
                stream = env.sql(text)
            except (SqlError, PySparkException) as refused:
                self.refusals[name] = str(refused)
                continue
            placed = stream.transform(partial(_placed, numbers=self._numbers), per_batch=True).name(f"{name} placed")
            placed.sink_to(FileSink.parquet(str(self._folder / name))).uid(f"{name} sink")
            self.streams[name] = stream

    def start(self, env: StreamExecutionEnvironment) -> JobClient:
        client = env.execute_async("incremental")
        with self._changed:
            self._running.clear()
        client.add_listener(self._on_message)
        return client

    def run(self, client: JobClient, step: int, *, kill: StreamExecutionEnvironment | None = None) -> None:
        """Run a step and take a checkpoint after it; a TaskManager of the environment `kill` is killed on the way.

        Raises:
            JobEndedError: the job has ended.
        """
        self._steps.put(step)
        self._steps.wait_until_read(step, client)
        if kill is not None:
            self._steps.forget(step)
            with self._changed:
                victim = next(iter(self._running.values()))
            kill.cluster.kill_task_manager(victim)
            self._steps.wait_until_read(step, client)
        self._wait_until_running(client)
        try:
            path = client.trigger_checkpoint(timeout=_WAIT_S)
        except CheckpointError as failed:
            raise JobEndedError(str(client.exception_history)) from failed
        self.checkpoints[step] = int(path.rstrip("/").rsplit("-", 1)[-1])

    def _wait_until_running(self, client: JobClient) -> None:
        subtasks = sum(vertex.parallelism for vertex in client.job_graph.vertices)
        with self._changed:
            while len(self._running) < subtasks:
                self._changed.wait(timeout=0.1)
                if client.done():
                    raise JobEndedError(str(client.exception_history))

    def changes(self, query: str, step: int) -> list[dict[str, object]]:
        """Return the rows that a query has emitted in a step, in order."""
        first, last = self.checkpoints.get(step - 1, 0), self.checkpoints[step]
        files = [
            path
            for path in sorted((self._folder / query).glob("*.parquet"))
            if (number := _CHECKPOINT.search(path.name)) is not None and first < int(number.group(1)) <= last
        ]
        rows = [row for path in files for row in pq.read_table(path).to_pylist()]
        return sorted(rows, key=lambda row: (row[BATCH], row[PLACE]))

    def _on_message(self, message: Message) -> None:
        if isinstance(message, ExecutionStateChanged):
            with self._changed:
                if message.state is ExecutionState.RUNNING:
                    self._running[message.attempt] = str(message.task_manager)
                else:
                    self._running.pop(message.attempt, None)
                self._changed.notify_all()


def _placed(rows: DataFrame, numbers: Iterator[int]) -> DataFrame:
    return rows.withColumn(BATCH, F.lit(next(numbers))).withColumn(PLACE, F.monotonically_increasing_id())
