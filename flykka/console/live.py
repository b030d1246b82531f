"""Live displays of jobs in a terminal, which stay at the bottom while all other output is printed above them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from flykka.api.launch import Look
from flykka.console.job_picture import JobPicture
from flykka.messages.attempt.answers import WorkProgress
from flykka.messages.monitoring.job_details import JobDetails

REFRESHES_PER_SECOND = 4
LOOK_SECONDS = 0.5
"""Seconds between two polls."""

logger = logging.getLogger("flykka.console")

Details = Callable[[], JobDetails]


def can_be_live(output: RichConsole) -> bool:
    """Return whether the output is a terminal that can redraw. Forced colours alone do not suffice."""
    return output.file.isatty() and not output.is_dumb_terminal


class LiveScreen:
    """The live displays of all running jobs. While a display is active, Python's output is printed above it."""

    def __init__(self, output: RichConsole) -> None:
        self._output = output
        self._jobs: tuple[tuple[Details, Look], ...] = ()
        self._live: Live | None = None
        self._lock = threading.Lock()

    def show(self, job: Details, long_work: Look = tuple) -> None:
        with self._lock:
            self._jobs = (*self._jobs, (job, long_work))
            if self._live is None:
                self._live = Live(
                    console=self._output,
                    get_renderable=self._pictures,
                    refresh_per_second=REFRESHES_PER_SECOND,
                )
                self._live.start(refresh=True)

    def leave(self, job: Details) -> None:
        """Draw a job for the last time. Its display remains on the screen."""
        with self._lock:
            others = tuple((other, long_work) for other, long_work in self._jobs if other is not job)
            if len(others) == len(self._jobs):
                return
            if others:
                self._jobs = others
                self._output.print(JobPicture(job(), jobs=len(self._jobs)))
            else:
                self._end()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live, self._jobs = None, ()

    def _pictures(self) -> RenderableType:
        # The lock is not taken here, because its holder may be waiting for the thread that draws.
        jobs = self._jobs
        return Group(*(JobPicture(job(), jobs=len(jobs), long_work=long_work()) for job, long_work in jobs))


class LongWork:
    """The last known long-running work of a job in Spark, oldest first.

    A separate thread polls it, because Spark may reply slowly.
    """

    def __init__(self, look: Look, interval_seconds: float = LOOK_SECONDS) -> None:
        self._look = look
        self._interval_seconds = interval_seconds
        self._seen: tuple[WorkProgress, ...] = ()
        self._closed = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="flykka looks at Spark", daemon=True).start()

    def seen(self) -> tuple[WorkProgress, ...]:
        """Return the last known work. Does not block."""
        return self._seen

    def close(self) -> None:
        """Stop polling. Does not wait for Spark."""
        self._closed.set()

    def look(self) -> None:
        """Poll once. If Spark does not reply, there is no work to show."""
        try:
            works = self._look()
        except Exception:
            logger.debug("the progress of Spark cannot be read", exc_info=True)
            works = ()
        self._seen = tuple(sorted(works, key=lambda work: -work.age_ms))

    def _run(self) -> None:
        while not self._closed.wait(self._interval_seconds):
            self.look()


Clock = Callable[[], float]


@contextmanager
def elapsed(output: RichConsole, start_text: str, end_text: str, clock: Clock = time.monotonic) -> Iterator[None]:
    """Print `start_text`, and if the `with` block ends without an error, `end_text` with the elapsed time.

    In a terminal a temporary line counts the seconds meanwhile. Otherwise two lines are printed.
    """
    since = clock()
    if can_be_live(output):
        with Live(
            console=output,
            get_renderable=lambda: Text(f"{start_text}  {clock() - since:.0f} s"),
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        ) as live:
            live.refresh()
            yield
    else:
        _print(output, start_text)
        yield
    _print(output, f"{end_text} after {clock() - since:.1f} s")


def spark_start(output: RichConsole, master: str) -> AbstractContextManager[None]:
    return elapsed(output, f"starting Spark at {master}", "Spark is up")


def _print(output: RichConsole, text: str) -> None:
    output.print(text, soft_wrap=True, highlight=False, markup=False)
