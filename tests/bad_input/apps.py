"""Runs apps with an error as a user runs them, and records the output that a terminal would show."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest
from pyspark.sql import SparkSession

from flykka.cli.main import main

PROLOGUE = """\
import os, sys
from pyspark.sql import functions as F
from flykka import FileSink, FileSource, ForeachBatchSink, StreamExecutionEnvironment, TumblingEventTimeWindows
from flykka import WatermarkStrategy

HERE = sys.argv[1]
TIMES = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
COLUMNS = "id bigint, at timestamp"

def numbers(env, folder="in", strategy=TIMES):
    return env.from_source(FileSource.parquet(f"{HERE}/{folder}", schema=COLUMNS), strategy, "numbers", uid="numbers")

"""
MARK = "# here"
"""Marks the end of the line that an error must quote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppResult:
    path: str
    source: str
    code: int
    out: str
    err: str

    @property
    def here(self) -> str:
        """Return the marked line as flykka's errors introduce it."""
        return f"{self.path}:{self._marked()}: {self._marked_source()}"

    @property
    def frame(self) -> list[str]:
        """Return the marked line as the second line of a traceback, after the function's name."""
        return [f'  File "{self.path}", line {self._marked()}, in ', f"    {self._marked_source()}"]

    def _marked(self) -> int:
        (number,) = (number for number, line in enumerate(self.source.splitlines(), start=1) if line.endswith(MARK))
        return number

    def _marked_source(self) -> str:
        return self.source.splitlines()[self._marked() - 1].strip()


@dataclass(frozen=True, slots=True)
class Apps:
    """Runs apps in a folder whose subfolder `in` contains a hundred rows."""

    folder: Path
    spark: SparkSession
    capsys: pytest.CaptureFixture[str]

    def run(self, body: str, *options: str, before: str = "") -> AppResult:
        """Run `body` within an environment, after the code in `before`, with options of `flykka run`."""
        head = "with StreamExecutionEnvironment.get_execution_environment() as env:\n"
        source = PROLOGUE + before + head + indent(body, "    ")
        path = self.folder / "app.py"
        path.write_text(source)
        self.capsys.readouterr()
        code = main(["run", str(path), str(self.folder), *options])
        printed = self.capsys.readouterr()
        return AppResult(path=str(path), source=source, code=code, out=printed.out, err=printed.err)

    def tree(self) -> list[str]:
        paths = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        return [path for path in paths if path != "app.py"]

    def held(self) -> list[int]:
        """Return the ids of the DataFrames that Spark has cached."""
        return sorted(self.spark.sparkContext._jsc.getPersistentRDDs())

    def jobs(self) -> int:
        assert self.spark.sparkContext._jsc is not None
        return int(self.spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def wait_for_threads_to_end(before: Sequence[threading.Thread], seconds: float = 20.0) -> list[str]:
    """Wait until all threads that were started since `before` have ended, and return the names of those that remain."""
    deadline = time.monotonic() + seconds
    for thread in set(threading.enumerate()) - set(before):
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(thread.name for thread in set(threading.enumerate()) - set(before) if _is_ours(thread))


def _is_ours(thread: threading.Thread) -> bool:
    # Py4J retains the connections of ended threads, with a thread that cleans up these connections.
    return thread.is_alive() and "py4j" not in type(thread).__module__
