"""Everything there is to see of the jobs of a run: lines of events, live pictures where a terminal can, summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console as RichConsole

from flykka.api.launch import Look
from flykka.client.job_client import JobClient
from flykka.console.event_lines import Console
from flykka.console.job_picture import CHECKPOINTS_SHOWN
from flykka.console.live import LiveScreen, LongWork, can_be_live
from flykka.console.summary import print_summary
from flykka.messages.control.job import JobResultFailure, JobResultSuccess
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.message import Message

Epilogue = Callable[[JobClient], Iterable[tuple[str, str]]]
"""Lines to add to the summary of a job that has ended: labels and texts."""


class JobConsole:
    """Shows each job that it is told to, from its submission to its summary."""

    def __init__(self, output: RichConsole, epilogue: Epilogue) -> None:
        self._output = output
        self._epilogue = epilogue
        self._screen = LiveScreen(output) if can_be_live(output) else None
        self._running: set[str] = set()

    def show(self, client: JobClient, look: Look = tuple) -> None:
        """Show a job until its end, on a terminal with that which takes long in Spark.

        One that does not run alone has its name on every line.
        """
        lines = Console(self._output, job_name=client.job_name if self._running else None)
        self._running.add(client.job_id)
        long_work = LongWork(look)

        def details() -> JobDetails:
            return client.details_with(CHECKPOINTS_SHOWN)

        def hear(message: Message) -> None:
            lines(message)
            if isinstance(message, JobResultSuccess | JobResultFailure):
                self._running.discard(client.job_id)
                long_work.close()
                if self._screen is not None:
                    self._screen.leave(details)
                print_summary(self._output, client.details, self._epilogue(client))

        if self._screen is not None:
            long_work.start()
            self._screen.show(details, long_work.seen)
        client.add_listener(hear)

    def say(self, text: str) -> None:
        """A line of our own, above whatever is live."""
        self._output.print(text, soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        """Draw no more, even if a job has not ended."""
        if self._screen is not None:
            self._screen.close()
