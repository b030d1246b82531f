"""Displays all jobs of a run: lines of events, live displays in a terminal, summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console as RichConsole
from rich.text import Text

from flykka.api.launch import Look
from flykka.client.job_client import JobClient
from flykka.console.event_lines import Console
from flykka.console.job_picture import CHECKPOINTS_SHOWN
from flykka.console.live import LiveScreen, LongWork, can_be_live
from flykka.messages.control.job import JobResultFailure, JobResultSuccess, JobStatus
from flykka.messages.monitoring.job_details import JobDetails, JobVertexDetails
from flykka.messages.wire.message import Message
from flykka.runtime.durations import format_ms
from flykka.views.text.failures import failure_lines
from flykka.views.text.formats import displayed_status, format_bytes

Epilogue = Callable[[JobClient], Iterable[tuple[str, str]]]
"""A function that returns additional lines for the summary of an ended job, as labels and texts."""
_LABEL = 13
_FAILURES = 5
_STYLES = {JobStatus.FINISHED: "bold green", JobStatus.FAILED: "bold red", JobStatus.CANCELED: "bold yellow"}


class JobConsole:
    def __init__(self, output: RichConsole, epilogue: Epilogue) -> None:
        self._output = output
        self._epilogue = epilogue
        self._screen = LiveScreen(output) if can_be_live(output) else None
        self._running: set[str] = set()

    def show(self, client: JobClient, look: Look = tuple) -> None:
        """Display a job until it ends. In a terminal, its long-running Spark work is displayed too.

        If other jobs are running, each line begins with the name of its job.
        """
        lines = Console(self._output, job_name=client.job_name if self._running else None)
        self._running.add(client.job_id)
        long_work = LongWork(look)

        def details() -> JobDetails:
            return client.details_with(CHECKPOINTS_SHOWN)

        def on_message(message: Message) -> None:
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
        client.add_listener(on_message)

    def notify(self, text: str) -> None:
        self._output.print(text, soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        if self._screen is not None:
            self._screen.close()


def print_summary(output: RichConsole, details: JobDetails, more: Iterable[tuple[str, str]] = ()) -> None:
    head = Text(f"job {details.name!r} ").append(displayed_status(details), _STYLES.get(details.status, "bold"))
    head.append(f" in {format_ms(details.duration_ms)}")
    output.print(head, soft_wrap=True, highlight=False)
    for label, text in (*_lines(details), *more):
        output.print(Text(f"  {label:<{_LABEL}}{text}"), soft_wrap=True, highlight=False)


def _lines(details: JobDetails) -> Iterator[tuple[str, str]]:
    again = " (rows read again after a restart are counted again)" if details.number_of_restarts else ""
    for vertex in details.vertices:
        if vertex.sources:
            yield "read", f"{vertex.rows_in:,} rows from {_names_text(vertex.sources)}{again}"
    for vertex in details.vertices:
        if vertex.sinks:
            yield "written", _vertex_text(vertex, is_least=details.number_of_restarts > 0)
    if late := sum(vertex.late_rows for vertex in details.vertices):
        yield "late", f"{late:,} rows came too late for their windows"
    yield "checkpoints", _checkpoints(details)
    if details.number_of_restarts:
        yield "restarts", f"{details.number_of_restarts}"
    began_ms = 0 if details.started_ms is None else details.started_ms
    for number, entry in enumerate(details.exceptions[-_FAILURES:]):
        for line in failure_lines(entry, began_ms):
            yield "failures" if number == 0 and not line.startswith(" ") else "", line


def _vertex_text(vertex: JobVertexDetails, *, is_least: bool) -> str:
    """Describe the published rows. A restart may have published uncounted rows: `is_least` then adds "at least"."""
    published = f"{'at least ' if is_least else ''}{vertex.rows_published:,} rows to {_names_text(vertex.sinks)}"
    staged = f"; {vertex.rows_staged:,} more were staged and not published" if vertex.rows_staged else ""
    return published + staged


def _names_text(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)


def _checkpoints(details: JobDetails) -> str:
    text = f"{details.checkpoints_completed} completed, {details.checkpoints_failed} failed"
    last = details.last_completed
    if last is None:
        return text
    return (
        f"{text}; the last, {last.checkpoint_id}, took {format_ms(last.duration_ms)}: {format_bytes(last.size_bytes)}"
    )
