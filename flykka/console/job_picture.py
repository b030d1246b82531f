"""What a job looks like at one moment: a header, its vertices, its last checkpoints and restarts, for rich to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from flykka.actors.checkpoint.statistics import CheckpointStatsStatus
from flykka.console.formats import NOTHING, format_bytes, format_cause, format_count, format_event_time, format_lag
from flykka.explanation.job_exceptions import times
from flykka.jobs.job_details import (
    CheckpointStatistics,
    JobDetails,
    JobVertexDetails,
    TimeShares,
)
from flykka.messages.job import JobStatus
from flykka.messages.task import ExecutionState
from flykka.runtime.durations import format_ms

QUIET = "dim"
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
_BAR = 5
"""Characters: one stands for a fifth of the time."""
_NAME = 20
"""Characters that the name of a vertex has at least."""
_MORE_NAME = 12
"""So many more it has before the less important columns are shown."""
_GAP = 2
_CHECKPOINTS = 5


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the vertices, always `width` characters wide: what grows in one does not move the others."""

    title: str
    width: int
    cell: Callable[[JobVertexDetails], Text]
    right: bool = True


@dataclass(frozen=True, slots=True)
class JobPicture:
    """Draws the details of a job, as tall at its begin as at its end: nothing jumps."""

    details: JobDetails

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        # Apart from the lines above.
        yield Text()
        yield _cut(self._header(), ascii_only=ascii_only)
        yield self._vertices(options.max_width, ascii_only=ascii_only)
        yield _cut(self._checkpoints(), ascii_only=ascii_only)
        yield _cut(self._restarts(), ascii_only=ascii_only)

    def _header(self) -> Text:
        header = Text().append(self.details.name, "bold")
        header.append(f"  {self.details.status}", _STATUS_STYLES.get(self.details.status, "bold"))
        return header.append(f"  {format_ms(self.details.duration_ms)}")

    def _vertices(self, width: int, *, ascii_only: bool) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=QUIET)
        is_tracked = any(vertex.latency is not None for vertex in self.details.vertices)
        columns = _fitting(width - _NAME, ascii_only=ascii_only, with_latency=is_tracked)
        rest = width - sum(_GAP + column.width for column in columns)
        table.add_column("vertex", no_wrap=True, overflow="crop" if ascii_only else "ellipsis", max_width=max(rest, 1))
        for column in columns:
            justify: Literal["left", "right"] = "right" if column.right else "left"
            table.add_column(column.title, justify=justify, no_wrap=True, width=column.width)
        for vertex in self.details.vertices:
            table.add_row(Text(vertex.name), *(column.cell(vertex) for column in columns))
        return table

    def _checkpoints(self) -> Text:
        line = Text().append("checkpoints  ", QUIET)
        if not self.details.checkpoints:
            line.append("none yet")
        for number, checkpoint in enumerate(reversed(self.details.checkpoints[-_CHECKPOINTS:])):
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
        return line.append(f", {f'{again}:' if again else 'the last after'} {format_cause(last.cause)}")


def _fitting(width: int, *, ascii_only: bool, with_latency: bool) -> list[_Column]:
    """The columns that find room, in their order; those that come first in importance are chosen first."""
    tasks = _Column("tasks", 13, _tasks, right=False)
    rows_in = _Column("rows in", 9, lambda vertex: Text(format_count(vertex.rows_in)))
    rows_out = _Column("rows out", 9, lambda vertex: Text(format_count(vertex.rows_out)))
    rate = _Column("rows/s", 9, lambda vertex: Text(format_count(vertex.rows_in_per_second)))
    watermark = _Column("watermark", 19, _watermark, right=False)
    lag = _Column("lag", 7, lambda vertex: Text(format_lag(vertex.watermark_lag_ms)))
    busy = _Column("busy", _BAR + 5, lambda vertex: _shares(vertex.shares, ascii_only=ascii_only), right=False)
    back_pressured = _Column("back-pressured", 14, _back_pressured)
    queued = _Column("queued", 9, _queued)
    chosen: list[_Column] = []
    tracked = (_Column("latency", 7, lambda vertex: Text(_latency(vertex))),) if with_latency else ()
    for column in (tasks, rows_in, rate, busy, *tracked, lag, watermark, back_pressured, rows_out, queued):
        width -= _GAP + column.width
        if width < (_MORE_NAME if column in (watermark, back_pressured, rows_out, queued) else 0):
            break
        chosen.append(column)
    order = (tasks, rows_in, rows_out, rate, watermark, lag, *tracked, busy, back_pressured, queued)
    return [column for column in order if column in chosen]


def _cut(line: Text, *, ascii_only: bool) -> Text:
    """The line, cut where the terminal ends: with a mark where it has one."""
    line.no_wrap, line.overflow = True, "crop" if ascii_only else "ellipsis"
    return line


def _tasks(vertex: JobVertexDetails) -> Text:
    """How many of the subtasks are in the state that stands for all: of all of them, where it is not all."""
    there, of = vertex.subtasks.get(vertex.state, 0), vertex.parallelism
    count = f"{of}" if there in (0, of) else f"{there}/{of}"
    return Text(f"{count} ").append(vertex.state, _STATE_STYLES.get(vertex.state, ""))


def _latency(vertex: JobVertexDetails) -> str:
    return NOTHING if vertex.latency is None else format_ms(vertex.latency.median_ms)


def _watermark(vertex: JobVertexDetails) -> Text:
    return Text("end of input" if vertex.event_time_ended else format_event_time(vertex.watermark_ms))


def _shares(shares: TimeShares | None, *, ascii_only: bool) -> Text:
    """A bar of how time is spent (busy, back-pressured, idle), and in figures how busy that is."""
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
    """Batches before its subtasks, and behind them."""
    return Text(f"{vertex.input_queue_length}|{vertex.output_queue_length}")


def _checkpoint(checkpoint: CheckpointStatistics) -> Text:
    text = Text().append(f"{checkpoint.checkpoint_id}", "bold")
    if checkpoint.status is CheckpointStatsStatus.FAILED:
        return text.append(f" {checkpoint.reason}", "red")
    size = f"{format_bytes(checkpoint.size_bytes)} ({format_bytes(checkpoint.incremental_bytes)} new)"
    return text.append(f" {format_ms(checkpoint.duration_ms)}, {size}")
