"""One engine at one size of batch, in a process of its own: no engine warms the JVM or fills the memory of another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from benchmarks.engines import EngineName
from benchmarks.memory import PeakMemory


class EngineFailedError(Exception):
    """The process of an engine ended; what it said last is in the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the query: `seconds` is the time of the engine's own call."""

    seconds: float
    checkpoints: int | None
    peak_bytes: int | None


class Contestant:
    """An engine that waits, warm, for its next run."""

    def __init__(self, engine: EngineName, rows_per_batch: int, rows_per_file: int, heap: str) -> None:
        """`heap` is the memory of the JVM, as Java's options have it: `4g`."""
        self.engine = engine
        self.rows_per_batch = rows_per_batch
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process that writes it
        command = [sys.executable, "-m", "benchmarks.worker", engine, str(rows_per_batch), str(rows_per_file)]
        # Where every session, ours and those of flykka, is started from.
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-memory {heap} pyspark-shell"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )

    def run(self, source: Path, output: Path, scratch: Path) -> Run:
        """Run the query once. `output` must not be there yet.

        Raises:
            EngineFailedError: the process ended instead of answering.
        """
        with PeakMemory(self._process.pid) as memory:
            self._ask(json.dumps([str(source), str(output), str(scratch)]))
            answer = json.loads(self._answer())
        return Run(seconds=answer["seconds"], checkpoints=answer["checkpoints"], peak_bytes=memory.bytes)

    def wait_ready(self) -> None:
        """Wait until the engine has started. Raises `EngineFailedError` where it does not."""
        self._answer()

    def __str__(self) -> str:
        return f"{self.engine}, {self.rows_per_batch:,} rows per batch"

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._input.close()
        if raised is not None:
            # Nobody waits for what it is doing.
            self._process.terminate()
        self._process.wait()
        self._output.close()
        self._log.close()

    def _ask(self, request: str) -> None:
        try:
            print(request, file=self._input, flush=True)
        except BrokenPipeError as ended:
            raise self._failed() from ended

    def _answer(self) -> str:
        line = self._output.readline()
        if not line:
            raise self._failed()
        return line

    def _failed(self) -> EngineFailedError:
        code = self._process.wait()
        self._log.seek(0)
        return EngineFailedError(f"{self} ended with exit code {code}:\n{self._log.read()[-4_000:]}")

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout
