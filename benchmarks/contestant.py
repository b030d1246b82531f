"""Runs one engine with one batch size in its own process.

So no engine warms the JVM or fills the memory of another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.engine_process import EngineProcess
from benchmarks.engines import EngineName
from benchmarks.memory import PeakMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the query; `seconds` is the time of the engine's own call."""

    seconds: float
    checkpoints: int | None
    peak_bytes: int | None


class Contestant:
    """A warmed-up engine that is waiting for its next run."""

    def __init__(self, engine: EngineName, rows_per_batch: int, rows_per_file: int, heap: str) -> None:
        """Start the process. `heap` is the memory of the JVM in Java's notation: `4g`."""
        self.engine = engine
        self.rows_per_batch = rows_per_batch
        arguments = (engine, str(rows_per_batch), str(rows_per_file))
        self._process = EngineProcess(str(self), "benchmarks.worker", arguments, heap)

    def run(self, source: Path, output: Path, scratch: Path) -> Run:
        """Run the query once. `output` must not exist yet.

        Raises:
            EngineFailedError: the process exited without a reply.
        """
        with PeakMemory(self._process.pid) as memory:
            answer = self._process.ask(json.dumps([str(source), str(output), str(scratch)]))
        return Run(seconds=answer["seconds"], checkpoints=answer["checkpoints"], peak_bytes=memory.bytes)

    def wait_ready(self) -> None:
        """Wait until the engine has started. Raises `EngineFailedError` if it exits instead."""
        self._process.wait_ready()

    def __str__(self) -> str:
        return f"{self.engine}, {self.rows_per_batch:,} rows per batch"

    def __enter__(self) -> Contestant:
        self._process.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.__exit__(kind, raised, trace)
