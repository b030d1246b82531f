"""Measures the time of a step of each query, beside that of a Spark batch over all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Any

from benchmarks.incremental.comparison import Batches, CurrentRows
from benchmarks.incremental.jobs import Job, JobEndedError, Steps
from flykka import StreamExecutionEnvironment
from flykka.errors import FlykkaError

if TYPE_CHECKING:
    from benchmarks.incremental.data import Data

_BATCHES = 3
"""Timed runs of a batch, after one to warm up."""

_STOP_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The seconds of each step after the first one and of each batch, and the size of the last checkpoint."""

    first_step_s: float
    steps_s: tuple[float, ...]
    batches_s: tuple[float, ...]
    spark_jobs: int
    """The number of Spark jobs that the last step ran."""

    state_bytes: int
    difference: str | None

    def __str__(self) -> str:
        return (
            f"a step takes {self.step_s:.2f} s and {self.spark_jobs} Spark jobs, a batch {self.recompute_s:.2f} s"
            f" ({self.ratio:.2f} times); {self.difference or 'equal'}"
        )

    @property
    def step_s(self) -> float:
        # The first of them warms up.
        return median(self.steps_s[1:] or self.steps_s)

    @property
    def recompute_s(self) -> float:
        return median(self.batches_s)

    @property
    def ratio(self) -> float:
        return self.recompute_s / self.step_s


class Measuring:
    """Measures one query after the other, each in a job of its own."""

    def __init__(self, env: StreamExecutionEnvironment, data: Data, folder: Path, say: Callable[[str], object]) -> None:
        self._env = env
        self._data = data
        self._folder = folder
        self._say = say
        self._batches = Batches(env.spark, data)

    def run(self, queries: Sequence[str]) -> dict[str, Measured | str]:
        """Return the figures of each query, or why it has none."""
        found: dict[str, Measured | str] = {}
        for query in queries:
            try:
                found[query] = self._measured(query)
            except (FlykkaError, JobEndedError) as failed:
                found[query] = str(failed)
            self._say(f"{query}: {found[query]}")
        return found

    def _measured(self, query: str) -> Measured | str:
        text = self._data.suite.queries[query]
        folder = self._folder / query
        job = Job(Steps(self._data, self._data.suite.tables_read(text), folder / "input"), {query: text}, folder)
        self._env.set_checkpoint_dir(str(folder / "checkpoints"))
        job.define(self._env)
        if query in job.refusals:
            return job.refusals[query]
        client = job.start(self._env)
        seconds, jobs = [], [self._spark_jobs]
        for step in range(self._data.steps + 1):
            begun = time.perf_counter()
            job.run(client, step)
            seconds.append(time.perf_counter() - begun)
            jobs.append(self._spark_jobs)
            self._say(f"{query}, step {step}: {seconds[-1]:.2f} s")
        client.stop(timeout=_STOP_S)
        stream = job.streams[query]
        current = CurrentRows(stream.changelog, stream.columns)
        for step in range(self._data.steps + 1):
            current.apply(job.changes(query, step))
        return Measured(
            first_step_s=seconds[0],
            steps_s=tuple(seconds[1:]),
            batches_s=self._batch_seconds(query, folder),
            spark_jobs=jobs[-1] - jobs[-2],
            state_bytes=int(client.checkpoints["size_bytes"].max()),
            difference=self._batches.difference(query, self._data.steps, current.rows),
        )

    @property
    def _spark_jobs(self) -> int:
        return int(self._env.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())

    def _batch_seconds(self, query: str, folder: Path) -> tuple[float, ...]:
        seconds = []
        for number in range(_BATCHES + 1):
            begun = time.perf_counter()
            self._batches.frame(query, self._data.steps).write.parquet(str(folder / f"batch-{number}"))
            seconds.append(time.perf_counter() - begun)
        return tuple(seconds[1:])


def as_json(found: Mapping[str, Measured | str]) -> dict[str, Any]:
    """Return seconds and ratios by query, the geometric mean of the ratios, and how many results are equal."""
    measured = {query: each for query, each in found.items() if isinstance(each, Measured)}
    made: dict[str, Any] = {
        query: {
            "step_s": round(each.step_s, 3),
            "recompute_s": round(each.recompute_s, 3),
            "recompute_over_incremental": round(each.ratio, 2),
            "first_step_s": round(each.first_step_s, 2),
            "spark_jobs": each.spark_jobs,
            "state_bytes": each.state_bytes,
        }
        for query, each in measured.items()
    }
    made["geometric_mean"] = round(geometric_mean(each.ratio for each in measured.values()), 2) if measured else None
    made["equal"] = sum(each.difference is None for each in measured.values())
    made["not_run"] = {query: each for query, each in found.items() if isinstance(each, str)}
    made["different"] = {query: each.difference for query, each in measured.items() if each.difference is not None}
    return made


def as_table(found: Mapping[str, Measured | str]) -> str:
    lines = [
        "| query | step | Spark batch | recompute over incremental | Spark jobs | first step | state |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for query, each in found.items():
        if isinstance(each, Measured):
            cells = (
                f"{each.step_s:.2f} s | {each.recompute_s:.2f} s | {each.ratio:.2f} | {each.spark_jobs}"
                f" | {each.first_step_s:.1f} s | {each.state_bytes / 1e6:.1f} MB"
            )
            lines.append(f"| {query} | {cells} |")
    figures = as_json(found)
    lines += ["", f"Geometric mean of the ratios: {figures['geometric_mean']}; {figures['equal']} results are equal."]
    lines += [f"- {query} differs: {text}" for query, text in figures["different"].items()]
    lines += [f"- {query} did not run: {text}" for query, text in figures["not_run"].items()]
    return "\n".join(lines)
