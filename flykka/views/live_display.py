"""The live display of a job in the output of a notebook cell, which is updated until the job has ended.

Only display ids are needed: a frontend replaces the output with that id, whichever cell is running. ipykernel sends the
output of a thread under the newest cell. So a program that executes a notebook cell by cell, and listens only to the
running cell, also gets the updates of earlier outputs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

from flykka.actors.machines.states import JOB_TERMINAL
from flykka.ipython import Bundle, publish
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.monitoring.job_details import JobDetails, JobVertexDetails
from flykka.runtime.durations import format_ms
from flykka.runtime.futures.future import Future
from flykka.views.html.markup import AMBER, BLUE, GREEN, Html, display, dot, element, fragment, quiet, table
from flykka.views.html.sparkline import BARS, bars, line
from flykka.views.job_text import (
    has_failed,
    headline,
    into_the_run,
    job_text,
    lag,
    rates,
    read_again,
    vertex_state,
    watermark,
    why,
)
from flykka.views.text.failures import times
from flykka.views.text.formats import displayed_status, format_bytes, format_count, format_lag

SHOWN_CHECKPOINTS = 5
SHOWN_FAILED_CHECKPOINTS = 5
"""The number of last failed checkpoints that are shown in addition to the newest checkpoints."""

SHOWN_RESTARTS = 3

_Column = tuple[str, str, Callable[[JobVertexDetails], str]]
"""A column: title, class of the stylesheet, and a function that formats the cell of a vertex."""


def job_html(details: JobDetails) -> str:
    columns = _columns(details)
    return display(
        _head(details),
        pictures_html(details),
        table(
            [(title, kind) for title, kind, _ in columns],
            ([content(vertex) for _, _, content in columns] for vertex in details.vertices),
        ),
        _checkpoints(details),
        _restarts(details),
        _failure(details),
    )


def _head(details: JobDetails) -> Html:
    return element(
        "div",
        element("span", details.name, class_="name"),
        element("span", dot(displayed_status(details), str(details.status))),
        element("span", headline(details)),
        quiet(details.job_id, "span"),
        class_="head",
    )


def _columns(details: JobDetails) -> list[_Column]:
    """Return the columns for vertices. After the end of the job, columns about current work are omitted."""
    runs = details.status not in JOB_TERMINAL
    late = any(vertex.late_rows for vertex in details.vertices)
    again = any(vertex.rows_read_again for vertex in details.vertices)
    writes = any(vertex.sinks for vertex in details.vertices)
    waits = any(vertex.rows_staged for vertex in details.vertices)
    tracked = any(vertex.latency is not None for vertex in details.vertices)
    columns: list[tuple[bool, _Column]] = [
        (True, ("vertex", "wide", _name)),
        (True, ("state", "", lambda vertex: dot(vertex_state(vertex), str(vertex.state)))),
        (True, ("rows in", "number", lambda vertex: format_count(vertex.rows_in))),
        (again, ("read again", "number", read_again)),
        (True, ("rows out", "number", lambda vertex: format_count(vertex.rows_out))),
        (writes, ("published", "number", _published)),
        (waits, ("staged", "number", _staged)),
        (runs, ("rows/s", "number", lambda vertex: format_count(vertex.rows_in_per_second))),
        (late, ("late", "number", lambda vertex: format_count(vertex.late_rows))),
        (True, ("watermark", "", watermark)),
        (runs, ("lag", "number", lag)),
        (tracked, ("latency, 99 %", "number", _latency)),
        (runs, ("busy, back-pressured", "", _shares)),
    ]
    return [column for is_shown, column in columns if is_shown]


def _name(vertex: JobVertexDetails) -> Html:
    return fragment(f"{vertex.name.replace(' -> ', ' → ')} ", quiet(f"×{vertex.parallelism}", "span"))


def _published(vertex: JobVertexDetails) -> str:
    return format_count(vertex.rows_published) if vertex.sinks else ""


def _staged(vertex: JobVertexDetails) -> str:
    return format_count(vertex.rows_staged) if vertex.sinks else ""


def _latency(vertex: JobVertexDetails) -> str:
    latency = vertex.latency
    return "" if latency is None else f"{format_ms(latency.median_ms)}, {format_ms(latency.p99_ms)}"


def _shares(vertex: JobVertexDetails) -> str:
    shares = vertex.shares
    if shares is None:
        return ""
    busy, waiting = round(100 * shares.busy), round(100 * shares.back_pressured)
    parts = ((busy, GREEN), (waiting, AMBER))
    filled = (element("span", style=f"width: {share}%; background: {colour}") for share, colour in parts)
    return fragment(element("span", *filled, class_="bar"), f"{busy} %, {waiting} %")


def _checkpoints(details: JobDetails) -> Html:
    if not details.checkpoints:
        return fragment()
    counts_text = f"{details.checkpoints_completed} completed, {details.checkpoints_failed} failed"
    if details.restored_checkpoint is not None:
        counts_text += f"; restored from {details.restored_checkpoint}"
    failed = [each for each in details.checkpoints if each.status is CheckpointStatsStatus.FAILED]
    newest = (*details.checkpoints[-SHOWN_CHECKPOINTS:], *failed[-SHOWN_FAILED_CHECKPOINTS:])
    shown_ids = {each.checkpoint_id for each in newest}
    listed = (each for each in reversed(details.checkpoints) if each.checkpoint_id in shown_ids)
    newest_ones = _checkpoint_table(listed, counts_text)
    if len(shown_ids) == len(details.checkpoints):
        return newest_ones
    if details.status not in JOB_TERMINAL:
        # An update of the display would close the details that the reader has opened.
        return fragment(newest_ones, quiet(f"{_all_of(details)} are in the table job.checkpoints"))
    every = _checkpoint_table(reversed(details.checkpoints), "")
    return fragment(newest_ones, element("details", element("summary", _all_of(details)), every))


def _all_of(details: JobDetails) -> str:
    listed, there = len(details.checkpoints), details.checkpoints_completed + details.checkpoints_failed
    return f"all {listed:,} checkpoints" if listed == there else f"the last {listed:,} of {there:,} checkpoints"


def _checkpoint_table(checkpoints: Iterable[CheckpointStatistics], note: str) -> Html:
    titles = [("checkpoint", ""), ("status", ""), ("took", "number"), ("size", "number"), ("new", "number")]
    return table([*titles, (note, "wide")], map(_checkpoint, checkpoints))


def _checkpoint(checkpoint: CheckpointStatistics) -> list[str]:
    cells = [str(checkpoint.checkpoint_id), dot(str(checkpoint.status))]
    if checkpoint.reason is not None:
        return [*cells, "", "", "", checkpoint.failure_text]
    sizes = map(format_bytes, (checkpoint.size_bytes, checkpoint.incremental_bytes))
    return [*cells, format_ms(checkpoint.duration_ms), *sizes, ""]


def _restarts(details: JobDetails) -> Html:
    if not details.restarts or details.started_ms is None:
        return fragment()
    again = times(details.exceptions[-1]) if details.exceptions else ""
    restarts = details.restarts[-1:] if again else details.restarts[-SHOWN_RESTARTS:]
    rows = [
        (into_the_run(restart, details.started_ms), ": ".join(text for text in (again, why(restart.cause)) if text))
        for restart in reversed(restarts)
    ]
    return table((("restarted", ""), ("why", "wide")), rows)


def _failure(details: JobDetails) -> Html:
    cause = details.last_failure
    if not has_failed(details) or cause is None:
        return fragment()
    return element("div", f"{cause.type_name.rpartition('.')[2]}: {cause.message.strip()}", class_="failure")


def pictures_html(details: JobDetails) -> Html:
    figures = [
        element("figure", element("figcaption", title), picture, quiet(summary))
        for title, picture, summary in _pictures(details)
    ]
    return element("div", *figures, class_="pictures") if figures else fragment()


def _pictures(details: JobDetails) -> Iterator[tuple[str, Html, str]]:
    read = rates(details)
    if any(read):
        most, step = format_count(max(rate or 0 for rate in read)), format_ms(details.throughput.step_ms)
        summary = f"at most {most}, in steps of {step}"
        yield "rows read per second", line(read, f"rows read per second: {summary}", BLUE), summary
    lags = details.watermark_lag.values
    lag_values = [lag for lag in lags if lag is not None]
    if lag_values:
        summary = f"latest {format_lag(round(lag_values[-1]))}, maximum {format_lag(round(max(lag_values)))}"
        yield "watermark lag", line(lags, f"watermark lag: {summary}", AMBER), summary
    checkpoints = details.checkpoints[-BARS:]
    if checkpoints:
        took = [each.duration_ms if each.status is CheckpointStatsStatus.COMPLETED else None for each in checkpoints]
        failed = took.count(None)
        longest = max((duration for duration in took if duration is not None), default=None)
        parts = [] if longest is None else [f"at most {format_ms(longest)}"]
        summary = ", ".join(parts + ([f"{failed} failed"] if failed else []))
        yield "time of checkpoints", bars(took, f"time of checkpoints: {summary}", GREEN), summary


PAUSE_SECONDS = 0.25
"""Minimum seconds between two updates."""

TICK_SECONDS = 1.0
"""Seconds after which the display is updated even without changes, so that its clock advances."""

Publish = Callable[..., None]


def job_bundle(details: JobDetails) -> Bundle:
    """Format the job as HTML and as text. The frontend chooses."""
    return {"text/html": job_html(details), "text/plain": job_text(details)}


class LiveDisplay:
    """The live display of one job. A thread updates it from its first display until the end of the job.

    If `news()` is unchanged, only clocks have changed. `shown_last` completes when there are no more updates.
    """

    def __init__(
        self,
        details: Callable[[], JobDetails],
        outcome: Future[Any],
        news: Callable[[], int],
        *,
        publish: Publish = publish,
    ) -> None:
        self.shown_last: Future[None] = Future()
        self._details = details
        self._outcome = outcome
        self._news = news
        self._publish = publish
        self._display_ids: list[str] = []
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        display_id = f"flykka-{uuid4().hex}"
        with self._drawing:
            self._publish(self._picture(), display_id, update=False)
            self._display_ids.append(display_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_up, name="flykka-live-display", daemon=True)
                self._thread.start()
                self._outcome.add_done_callback(self._ended.set)

    def _keep_up(self) -> None:
        try:
            drawn_version, drawn_at = -1, -TICK_SECONDS
            while not self._ended.wait(PAUSE_SECONDS):
                version = self._news()
                if version != drawn_version or time.monotonic() - drawn_at >= TICK_SECONDS:
                    drawn_version, drawn_at = version, time.monotonic()
                    self._draw()
            self._draw()
        finally:
            self.shown_last.try_set(None)

    def _draw(self) -> None:
        with self._drawing:
            picture = self._picture()
            for display_id in self._display_ids:
                self._publish(picture, display_id, update=True)

    def _picture(self) -> Bundle:
        return job_bundle(self._details())
