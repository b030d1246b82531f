"""Runs queries over all steps, and compares the result after each with Spark's batch answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.incremental.comparison import Batches, CurrentRows
from benchmarks.incremental.jobs import Job, JobEndedError, Steps
from flykka import RestartStrategies, StreamExecutionEnvironment
from flykka.errors import FlykkaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.incremental.data import Data

SETTINGS = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
"""Settings with which Spark reads the queries as DuckDB does."""

_QUERIES_PER_JOB = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The mode of a job: its parallelism, whether a TaskManager is killed, and the parallelism after a savepoint."""

    parallelism: int = 1
    kill: bool = False
    restored_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A query that was refused, or that failed or differed in a step."""

    query: str
    kind: str
    text: str
    step: int | None = None


class Checking:
    def __init__(self, spark: SparkSession, data: Data, folder: Path, say: Callable[[str], object]) -> None:
        self._data = data
        self._folder = folder
        self._say = say
        self._batches = Batches(spark, data)
        self._jobs = 0

    def run(self, queries: Sequence[str], mode: Mode) -> list[Problem]:
        """Return the problems of queries; an empty list if all results are equal at every step."""
        problems: list[Problem] = []
        for start in range(0, len(queries), _QUERIES_PER_JOB):
            problems += self._run_together(queries[start : start + _QUERIES_PER_JOB], mode)
        return problems

    def _run_together(self, queries: Sequence[str], mode: Mode) -> list[Problem]:
        texts = {name: self._data.suite.queries[name] for name in queries}
        tables = dict.fromkeys(table for text in texts.values() for table in self._data.suite.tables_read(text))
        self._jobs += 1
        folder = self._folder / str(self._jobs)
        job = Job(Steps(self._data, tables, folder / "input"), texts, folder / "output")
        try:
            self._run_steps(job, folder, mode)
        except (FlykkaError, JobEndedError) as failed:
            text = str(failed)
            self._say(f"{', '.join(queries)}: {text}")
            if len(queries) == 1:
                return [Problem(query=queries[0], kind="fails", text=text)]
            return [problem for query in queries for problem in self._run_together([query], mode)]
        refused = [Problem(query=query, kind="refused", text=text) for query, text in job.refusals.items()]
        for problem in refused:
            self._say(f"{problem.query} is refused: {problem.text}")
        return [*refused, *(problem for query in job.streams for problem in self._compared(job, query))]

    def _run_steps(self, job: Job, folder: Path, mode: Mode) -> None:
        half = self._data.steps // 2
        with _environment(folder, mode.parallelism, mode) as env:
            job.define(env)
            if not job.streams:
                return
            client = job.start(env)
            last = self._data.steps if mode.restored_at is None else half
            for step in range(last + 1):
                job.run(client, step, kill=env if mode.kill and step == half else None)
            if mode.restored_at is None:
                client.stop(timeout=_STOP_S)
                return
            savepoint = client.stop_with_savepoint(timeout=_STOP_S)
        with _environment(folder, mode.restored_at, mode) as env:
            job.define(env)
            client = job.start(env.from_savepoint(savepoint))
            for step in range(half + 1, self._data.steps + 1):
                job.run(client, step)
            client.stop(timeout=_STOP_S)

    def _compared(self, job: Job, query: str) -> list[Problem]:
        stream = job.streams[query]
        current, problems, emitted = CurrentRows(stream.changelog, stream.columns), [], []
        for step in range(self._data.steps + 1):
            changes = job.changes(query, step)
            emitted.append(len(changes))
            current.apply(changes)
            if (text := self._batches.difference(query, step, current.rows)) is not None:
                self._say(f"{query} differs after step {step}: {text}")
                problems.append(Problem(query=query, kind="differs", text=text, step=step))
        if not problems:
            self._say(f"{query} is equal at each step, with {emitted} changes")
        return problems


_STOP_S = 600.0


@contextmanager
def _environment(folder: Path, parallelism: int, mode: Mode) -> Iterator[StreamExecutionEnvironment]:
    env = StreamExecutionEnvironment.get_execution_environment(task_managers=2, slots_per_task_manager=8)
    env.set_parallelism(parallelism)
    env.set_checkpoint_dir(str(folder / "checkpoints")).set_checkpoint_fsync(False)
    env.set_default_savepoint_directory(str(folder / "savepoints"))
    # With all tasks the sources start again, and read the step again.
    env.set_failover_strategy("full")
    # Otherwise a slow machine computes results of a part of a step, where a sum may be zero and is divided by.
    env.set_sql_mini_batch_latency("10min")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=int(mode.kill), delay="0s"))
    with env:
        yield env
