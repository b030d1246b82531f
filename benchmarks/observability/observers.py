"""The observers of a job, in their own process: a page that shows the running job, and Prometheus.

`python -m benchmarks.observability.observers URL` prints `ready` when both have received a response, and exits at the
end of its input. Responses are read and discarded, because processing them in a browser or database is not flykka's
cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.request import urlopen

SCRAPE_SECONDS = 1.0
_ANSWER_SECONDS = 60.0
_CHUNK = 1 << 16


@contextmanager
def watched(address: str) -> Iterator[None]:
    """Observe the jobs within the block. Raises `RuntimeError` if an observer got an error."""
    command = [sys.executable, "-m", "benchmarks.observability.observers", address]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() == "ready\n":
            yield
    finally:
        process.stdin.close()
        code = process.wait()
        process.stdout.close()
    if code:
        raise RuntimeError(f"an observer had no answer at {address}, or an error for one")


class Observers:
    """The page, which opens the running job, and the scraper."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()

    def begin(self) -> None:
        """Start observing; return when each observer has received its first response, or has failed."""
        answered = [threading.Event(), threading.Event()]
        self._on_thread(self._look_at_jobs, answered[0])
        self._on_thread(self._scrape, answered[1])
        for each in answered:
            each.wait()

    def end(self) -> None:
        """Stop observing; later errors are ignored, because they are a consequence of that."""
        self._is_over.set()

    def _on_thread(self, watch: Callable[[], Iterator[None]], answered: threading.Event) -> None:
        def run() -> None:
            try:
                for _ in watch():
                    answered.set()
                    if self._is_over.is_set():
                        return
            except BaseException as failed:  # noqa: BLE001 - it is told at the end
                self.failures.append(failed)
            finally:
                answered.set()

        threading.Thread(target=run, daemon=True).start()

    def _look_at_jobs(self) -> Iterator[None]:
        opened = set[str]()
        for line in self._stream("/events"):
            yield
            if line.startswith(b"data: "):
                running = {job["id"] for job in json.loads(line[6:])["jobs"] if job["state"] == "RUNNING"}
                for job_id in running - opened:
                    self._on_thread(partial(self._look_at, job_id), threading.Event())
                opened |= running

    def _look_at(self, job_id: str) -> Iterator[None]:
        for line in self._stream(f"/jobs/{job_id}/events"):
            yield
            if line.startswith(b"data: ") and json.loads(line[6:])["ended"] is not None:
                return

    def _stream(self, path: str) -> Iterator[bytes]:
        with urlopen(f"{self._address}{path}", timeout=_ANSWER_SECONDS) as events:
            yield from iter(events.readline, b"")

    def _scrape(self) -> Iterator[None]:
        while not self._is_over.wait(SCRAPE_SECONDS):
            with urlopen(f"{self._address}/metrics", timeout=_ANSWER_SECONDS) as answer:
                while answer.read(_CHUNK):
                    pass
            yield


def main(address: str) -> int:
    observers = Observers(address)
    observers.begin()
    if not observers.failures:
        print("ready", flush=True)
        sys.stdin.read()
    observers.end()
    for failed in observers.failures:
        print(f"{type(failed).__name__}: {failed}", file=sys.stderr)
    return 1 if observers.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
