"""Jobs on a terminal, live: their pictures stay at the bottom, everything that is printed goes above."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live

from flykka.client.job_details import JobDetails
from flykka.console.job_picture import JobPicture
from flykka.messages.tasks.bridge import WorkProgress

REFRESHES_PER_SECOND = 4

Details = Callable[[], JobDetails]
"""What is known of one job now."""

Seen = Callable[[], tuple[WorkProgress, ...]]
"""What was seen last of that which takes long in Spark, the oldest first."""


def can_be_live(output: RichConsole) -> bool:
    """Whether there is a terminal that can draw again what it has drawn. Forced colours alone make none."""
    return output.file.isatty() and not output.is_dumb_terminal


class LiveScreen:
    """The pictures of all jobs that run. While there is one, what Python prints goes above them."""

    def __init__(self, output: RichConsole) -> None:
        self._output = output
        self._jobs: tuple[tuple[Details, Seen], ...] = ()
        self._live: Live | None = None
        self._lock = threading.Lock()

    def show(self, job: Details, long_work: Seen = tuple) -> None:
        """Draw a job from now on."""
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
        """Draw a job for the last time: the picture stays where it is."""
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
        """Draw all that is there for the last time."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live, self._jobs = None, ()

    def _pictures(self) -> RenderableType:
        # Without the lock: whoever holds it may be waiting for the thread that draws.
        jobs = self._jobs
        return Group(*(JobPicture(job(), jobs=len(jobs), long_work=long_work()) for job, long_work in jobs))
