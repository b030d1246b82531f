"""The live display of a job's current state, for rich: a header, its vertices, its last checkpoints and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderResult
from rich.text import Text

from flykka.messages.attempt.answers import WorkProgress
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import (
    JobDetails,
    JobVertexDetails,
    TimeShares,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.runtime.durations import format_ms
from flykka.views.job_text import rates
from flykka.views.text.failures import times
from flykka.views.text.formats import (
    NOTHING,
    displayed_status,
    format_bytes,
    format_count,
    format_event_time,
    format_event_time_wait,
    format_files_waiting,
    format_lag,
    format_long_work,
)

QUIET = "dim"
_BLOCKS = "▁▂▃▄▅▆▇█"
_STATUS_STYLES = {
    JobStatus.RUNNING: "bold green",
    JobStatus.FINISHED: "bold green",
    JobStatus.FAILING: "bold red",
    JobStatus.FAILED: "bold red",
    JobStatus.RESTARTING: "bold yellow",
    JobStatus.CANCELLING: "bold yellow",
    JobStatus.CANCELED: "bold yellow",
}
_STATE_STYLES = {
    ExecutionState.RUNNING: "green",
    ExecutionState.FAILED: "red",
    ExecutionState.CANCELING: "yellow",
    ExecutionState.CANCELED: "yellow",
    ExecutionState.FINISHED: QUIET,
}
_RATES = 20
_BAR = 5
_NAME = 20
_GAP = 2
_WANTED = 6
"""Columns up to this importance are not dropped for a long name. The name gets its own line instead, if possible."""
_OTHER_LINES = 10
"""The number of lines that a display needs besides its vertices, including some for the output above it."""
CHECKPOINTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the vertex table. Its `width` is fixed, so that columns do not move. Importance 1 is the highest."""

    title: str
    importance: int
    width: int
    cell: Callable[[JobVertexDetails], Text]
    right: bool = True

    def heading(self) -> Text:
        return self._aligned(Text(self.title))

    def render(self, vertex: JobVertexDetails) -> Text:
        return self._aligned(self.cell(vertex))

    def _aligned(self, cell: Text) -> Text:
        cell.truncate(self.width)
        cell.align("right" if self.right else "left", self.width)
        return cell


@dataclass(frozen=True, slots=True)
class JobPicture:
    """Draws the details of a job with a constant height, so that the lines below do not move."""

    details: JobDetails
    jobs: int = 1
    """The number of displays that share the terminal."""
    long_work: tuple[WorkProgress, ...] = ()
    """Long-running work of the job in Spark, oldest first."""

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        # An empty line separates the display from the output above.
        yield Text()
        yield _cut(self._header(ascii_only=ascii_only), ascii_only=ascii_only)
        yield from self._vertices(options.max_width, options.size.height // self.jobs, ascii_only=ascii_only)
        yield from self._text_lines(ascii_only=ascii_only)
        yield _cut(self._checkpoints(), ascii_only=ascii_only)
        yield _cut(self._restarts(), ascii_only=ascii_only)

    def _header(self, *, ascii_only: bool) -> Text:
        header = Text().append(self.details.name, "bold")
        header.append(f"  {displayed_status(self.details)}", _STATUS_STYLES.get(self.details.status, "bold"))
        header.append(f"  {format_ms(self.details.duration_ms)}")
        waits = (
            format_files_waiting(self.details.files_waiting),
            format_event_time_wait(self.details),
            format_long_work(self.long_work),
        )
        for text in waits:
            header.append(f"  {text}" if text else "")
        lately = rates(self.details)[-_RATES:]
        if any(lately) and not ascii_only:
            most = max(rate or 0 for rate in lately)
            header.append("  rows/s ", QUIET).append(blocks(lately), "blue")
            header.append(f" at most {format_count(most)}", QUIET)
        return header

    def _vertices(self, width: int, height: int, *, ascii_only: bool) -> Iterator[Text]:
        """Yield one line for each vertex, or two if its name and values do not fit into one and the height allows it.

        Otherwise names are truncated in favour of the most important values.
        """
        vertices = self.details.vertices
        is_tracked = any(vertex.latency is not None for vertex in vertices)
        columns = _columns(ascii_only=ascii_only, with_latency=is_tracked)
        longest = max((cell_len(vertex.name) for vertex in vertices), default=0)
        important = [column for column in columns if column.importance <= _WANTED]
        if longest + sum(_GAP + column.width for column in important) <= width:
            columns_shown, name_width = _fitting(columns, width - longest), longest
        elif 2 * len(vertices) + _OTHER_LINES <= height:
            yield from self._in_two_lines(_fitting(columns, width), ascii_only=ascii_only)
            return
        else:
            columns_shown = _fitting(important, width - _NAME)
            name_width = width - sum(_GAP + column.width for column in columns_shown)
        yield _row(Text("vertex"), name_width, (column.heading() for column in columns_shown), QUIET)
        for vertex in vertices:
            name = Text(vertex.name)
            name.truncate(name_width, overflow="crop" if ascii_only else "ellipsis")
            yield _row(name, name_width, (column.render(vertex) for column in columns_shown))

    def _in_two_lines(self, columns: Sequence[_Column], *, ascii_only: bool) -> Iterator[Text]:
        yield _row(Text(), 0, (column.heading() for column in columns), QUIET)
        for vertex in self.details.vertices:
            yield _cut(Text(vertex.name), ascii_only=ascii_only)
            yield _row(Text(), 0, (column.render(vertex) for column in columns))

    def _text_lines(self, *, ascii_only: bool) -> Iterator[Text]:
        sinks = [vertex for vertex in self.details.vertices if vertex.sinks]
        if sinks:
            published = format_count(sum(vertex.rows_published for vertex in sinks))
            staged = format_count(sum(vertex.rows_staged for vertex in sinks))
            line = Text().append("written      ", QUIET).append(f"{published} rows published, {staged} staged")
            yield _cut(line, ascii_only=ascii_only)

    def _checkpoints(self) -> Text:
        line = Text().append("checkpoints  ", QUIET)
        if not self.details.checkpoints:
            line.append("none yet")
        for number, checkpoint in enumerate(reversed(self.details.checkpoints[-CHECKPOINTS_SHOWN:])):
            line.append("   " if number else "")
            line.append_text(_checkpoint(checkpoint))
        return line

    def _restarts(self) -> Text:
        line = Text().append("restarts     ", QUIET)
        if not self.details.restarts:
            return line.append("none")
        last = self.details.restarts[-1]
        line.append(f"{self.details.number_of_restarts}", "yellow")
        if last.cause is None:
            return line
        again = times(self.details.exceptions[-1]) if self.details.exceptions else ""
        return line.append(f", {f'{again}:' if again else 'the last after'} {last.cause.headline}")


def _columns(*, ascii_only: bool, with_latency: bool) -> list[_Column]:
    latency = _Column("latency", 7, 7, lambda vertex: Text(_latency(vertex)))
    return [
        _Column("tasks", 1, 13, _tasks, right=False),
        _Column("rows in", 2, 9, lambda vertex: Text(format_count(vertex.rows_in))),
        _Column("rows out", 9, 9, lambda vertex: Text(format_count(vertex.rows_out))),
        _Column("rows/s", 3, 9, lambda vertex: Text(format_count(vertex.rows_in_per_second))),
        _Column("watermark", 6, 19, _watermark, right=False),
        _Column("lag", 5, 7, lambda vertex: Text(format_lag(vertex.watermark_lag_ms))),
        *((latency,) if with_latency else ()),
        _Column("busy", 4, _BAR + 5, lambda vertex: _shares(vertex.shares, ascii_only=ascii_only), right=False),
        _Column("back-pressured", 8, 14, _back_pressured),
        _Column("queued", 10, 9, _queued),
    ]


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Return the columns that fit, by importance. The first column that does not fit and all less important ones are
    dropped.
    """
    chosen: list[_Column] = []
    for column in sorted(columns, key=lambda column: column.importance):
        width -= _GAP + column.width
        if width < 0:
            break
        chosen.append(column)
    return [column for column in columns if column in chosen]


def _row(name: Text, name_width: int, cells: Iterable[Text], style: str = "") -> Text:
    row = Text(style=style, no_wrap=True, overflow="crop")
    name.align("left", name_width)
    row.append_text(name)
    for cell in cells:
        row.append(" " * _GAP)
        row.append_text(cell)
    return row


def _cut(line: Text, *, ascii_only: bool) -> Text:
    """Truncate a line at the terminal's width, with an ellipsis if the terminal can show it."""
    line.no_wrap, line.overflow = True, "crop" if ascii_only else "ellipsis"
    return line


def _tasks(vertex: JobVertexDetails) -> Text:
    """Format the number of subtasks in the vertex's state, with the total if some are in another state."""
    there, of = vertex.subtasks.get(vertex.state, 0), vertex.parallelism
    count = f"{of}" if there in (0, of) else f"{there}/{of}"
    return Text(f"{count} ").append(vertex.state, _STATE_STYLES.get(vertex.state, ""))


def _latency(vertex: JobVertexDetails) -> str:
    return NOTHING if vertex.latency is None else format_ms(vertex.latency.median_ms)


def _watermark(vertex: JobVertexDetails) -> Text:
    return Text("end of input" if vertex.event_time_ended else format_event_time(vertex.watermark_ms))


def _shares(shares: TimeShares | None, *, ascii_only: bool) -> Text:
    """Draw a bar of the shares of time (busy, back-pressured, idle), with the busy share as a number."""
    if shares is None:
        return Text(NOTHING)
    full, held, empty = ("#", "=", ".") if ascii_only else ("█", "▒", "·")
    busy = round(shares.busy * _BAR)
    back_pressured = min(round(shares.back_pressured * _BAR), _BAR - busy)
    text = Text().append(full * busy, "green").append(held * back_pressured, "red")
    text.append(empty * (_BAR - busy - back_pressured), QUIET)
    return text.append(f" {shares.busy:.0%}")


def _back_pressured(vertex: JobVertexDetails) -> Text:
    if vertex.shares is None:
        return Text(NOTHING)
    return Text(f"{vertex.shares.back_pressured:.0%}", "red" if vertex.shares.back_pressured >= 0.5 else "")


def _queued(vertex: JobVertexDetails) -> Text:
    return Text(f"{vertex.input_queue_length}|{vertex.output_queue_length}")


def _checkpoint(checkpoint: CheckpointStatistics) -> Text:
    text = Text().append(f"#{checkpoint.checkpoint_id}", "bold")
    if checkpoint.status is CheckpointStatsStatus.FAILED:
        return text.append(f" {checkpoint.reason}", "red")
    size = f"{format_bytes(checkpoint.size_bytes)} ({format_bytes(checkpoint.incremental_bytes)} new)"
    return text.append(f" in {format_ms(checkpoint.duration_ms)}, {size}")


def blocks(values: Sequence[float | None]) -> str:
    """Draw one character per value, scaled from 0 to the maximum. None leaves a gap."""
    greatest = max((value for value in values if value is not None), default=0) or 1
    return "".join(
        " " if value is None else _BLOCKS[ceil(max(0.0, value) / greatest * (len(_BLOCKS) - 1))] for value in values
    )
