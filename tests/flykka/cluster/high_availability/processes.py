"""Drivers in separate processes, which a test can stop, resume and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from types import TracebackType
from typing import Self

from tests.flykka.cluster.high_availability.contenders import PATIENCE

ROOT = Path(__file__).parents[4]


class Driver:
    def __init__(
        self, *arguments: str, module: str = "tests.flykka.cluster.high_availability.driver", patience: float = PATIENCE
    ) -> None:
        """`patience` is the number of seconds without output after which a wait fails."""
        self._patience = patience
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._said: Queue[str] = Queue()
        Thread(target=self._listen, daemon=True).start()

    def wait_line(self) -> str:
        try:
            return self._said.get(timeout=self._patience)
        except Empty:
            raise AssertionError(f"the driver says nothing; it has ended with {self._process.poll()}") from None

    def wait_granted(self) -> None:
        said = self.wait_line()
        assert said.startswith("granted "), said

    def ask(self, command: str) -> str:
        self.send_command(command)
        return self.wait_line()

    def send_command(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def wait_ended(self) -> int:
        return self._process.wait(self._patience)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._said.put(line.strip())
        except ValueError:
            # The pipe is already closed because the process has ended.
            pass
