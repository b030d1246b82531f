"""A measured process: it replies to each line of its input with a line of JSON, and exits at the end of the input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any


class EngineFailedError(Exception):
    """The process of an engine has exited; the message contains its last output."""


class EngineProcess:
    """Runs `python -m` with a module and arguments until the end of the `with` block."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], heap: str) -> None:
        """Start the process. `name` is used in errors; `heap` is the memory of the JVM in Java's notation: `4g`."""
        self._name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process that writes it
        # All Spark sessions, those of the engines and flykka's, are started with this.
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--driver-memory {heap} pyspark-shell"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )

    @property
    def pid(self) -> int:
        """The process id of Python; Java is its child process."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until the engine has started. Raises `EngineFailedError` if it exits instead."""
        self._line()

    def ask(self, request: str) -> Any:
        """Send a request and return the reply.

        Raises:
            EngineFailedError: the process exited without a reply.
        """
        try:
            print(request, file=self._input, flush=True)
        except BrokenPipeError as ended:
            raise self._failed() from ended
        return self.read()

    def read(self) -> Any:
        """Read the next line of the process without a request. Raises the errors of `ask`."""
        return json.loads(self._line())

    def kill(self) -> None:
        """Kill the process, as if its machine had crashed."""
        self._process.kill()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._input.close()
        if raised is not None:
            # The process need not complete its current work.
            self._process.terminate()
        self._process.wait()
        self._output.close()
        self._log.close()

    def _line(self) -> str:
        line = self._output.readline()
        if not line:
            raise self._failed()
        return line

    def _failed(self) -> EngineFailedError:
        code = self._process.wait()
        self._log.seek(0)
        return EngineFailedError(f"{self._name} ended with exit code {code}:\n{self._log.read()[-4_000:]}")

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


def answering() -> IO[str]:
    """Return the channel for replies, within the process; other output, including Java's, goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers
