"""A job as HTML: a picture of one moment, which needs nothing but itself and is readable in light and in dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from flykka.actors.machines.checkpoint.statistics import CheckpointStatsStatus
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.client.job_details import CheckpointStatistics, JobDetails, JobVertexDetails
from flykka.console.formats import displayed_status, format_bytes, format_count
from flykka.explanation.job_exceptions import times
from flykka.messages.wire.failure import SerializedThrowable
from flykka.notebook.colours import AMBER, BLUE, GREEN, GREY, RED
from flykka.notebook.job_pictures import pictures_html
from flykka.notebook.job_text import has_failed, headline, into_the_run, lag, read_again, vertex_state, watermark, why
from flykka.runtime.durations import format_ms

SHOWN_CHECKPOINTS = 5
SHOWN_FAILED_CHECKPOINTS = 5
"""The last of those that failed are shown beside the newest ones, however long ago that was."""

SHOWN_RESTARTS = 3

# Text has the colour of the page it stands on; only dots, bars and lines have one of their own, which suits both.
# A notebook draws tables in its own way: what must not be as it says is marked.
STYLE = """<style>
.flykka-job { font: 13px/1.6 system-ui, sans-serif; color: inherit; max-width: 72em; margin: .4em 0;
  overflow-x: auto }
.flykka-job .head { display: flex; flex-wrap: wrap; gap: 0 1em; align-items: baseline }
.flykka-job .name, .flykka-job .answer { font-size: 1.2em; font-weight: 600 }
.flykka-job .quiet { opacity: .65 }
.flykka-job table { border-collapse: collapse; border: 0; margin: .5em 0 0; width: 100%; color: inherit;
  table-layout: auto; font-size: inherit; font-variant-numeric: tabular-nums; background: none !important }
.flykka-job tr { background: none !important }
.flykka-job th, .flykka-job td { padding: .15em 1.2em .15em 0; border: 0; max-width: none; vertical-align: baseline;
  border-bottom: 1px solid rgba(128, 128, 128, .25); text-align: left !important; white-space: nowrap }
.flykka-job th { font-weight: 500; opacity: .65 }
.flykka-job .number { text-align: right !important }
.flykka-job .wide { width: 99%; min-width: 12em; white-space: normal; overflow-wrap: anywhere }
.flykka-job .name-of-task { min-width: 16em; white-space: normal; overflow-wrap: anywhere }
.flykka-job .dot { display: inline-block; width: .6em; height: .6em; margin-right: .5em; border-radius: 50% }
.flykka-job .bar { display: inline-flex; width: 5em; height: .55em; margin-right: .6em; border-radius: .3em;
  overflow: hidden; background: rgba(128, 128, 128, .25) }
.flykka-job .pictures { display: flex; flex-wrap: wrap; gap: .4em 2.5em; margin: .6em 0 0 }
.flykka-job figure { margin: 0; padding: 0 }
.flykka-job figcaption { font-weight: 500; opacity: .65; text-align: left; font-size: inherit; color: inherit }
.flykka-job .spark { display: block; margin: .15em 0; overflow: visible }
.flykka-job summary { cursor: pointer; margin: .6em 0 0; opacity: .65 }
.flykka-job .failure { margin: .6em 0 0; padding: .1em 0 .1em .8em; border-left: 3px solid #e5484d;
  white-space: pre-wrap; overflow-wrap: anywhere }
</style>"""

_COLOURS = {
    "RUNNING": GREEN,
    "FINISHED": BLUE,
    "COMPLETED": GREEN,
    "FAILED": RED,
    "FAILING": RED,
    "RESTARTING": AMBER,
    "DEPLOYING": AMBER,
    "CANCELING": AMBER,
    "CANCELLING": AMBER,
}
"""What is not named here waits, or has been cancelled."""

_Column = tuple[str, str, Callable[[JobVertexDetails], str]]
"""Title, kind (a class of the style), and what the cell of a vertex holds, as HTML."""


def job_html(details: JobDetails) -> str:
    """The whole picture. Every name and every text of the user's is escaped."""
    parts = (
        _head(details),
        pictures_html(details),
        _vertices(details),
        _checkpoints(details),
        _restarts(details),
        _failure(details),
    )
    return f'{STYLE}<div class="flykka-job">{"".join(parts)}</div>'


def _head(details: JobDetails) -> str:
    return (
        f'<div class="head"><span class="name">{escape(details.name)}</span>'
        f"<span>{status_dot(str(details.status), displayed_status(details))}</span>"
        f"<span>{escape(headline(details))}</span>"
        f'<span class="quiet">{escape(details.job_id)}</span></div>'
    )


def _vertices(details: JobDetails) -> str:
    columns = _columns(details)
    header = [_th(title, kind) for title, kind, _ in columns]
    rows = [[_td(content(vertex), kind) for _, kind, content in columns] for vertex in details.vertices]
    return _table(header, rows)


def _columns(details: JobDetails) -> list[_Column]:
    """What is told of a vertex. What it does at the moment is of no interest when the job has ended."""
    runs = details.status not in JOB_TERMINAL
    late = any(vertex.late_rows for vertex in details.vertices)
    again = any(vertex.rows_read_again for vertex in details.vertices)
    writes = any(vertex.sinks for vertex in details.vertices)
    waits = any(vertex.rows_staged for vertex in details.vertices)
    tracked = any(vertex.latency is not None for vertex in details.vertices)
    columns: list[tuple[bool, _Column]] = [
        (True, ("vertex", "wide", _name)),
        (True, ("state", "", lambda vertex: status_dot(str(vertex.state), vertex_state(vertex)))),
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
    return [column for wanted, column in columns if wanted]


def _name(vertex: JobVertexDetails) -> str:
    return f"{escape(vertex.name.replace(' -> ', ' → '))} <span class='quiet'>×{vertex.parallelism}</span>"


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
    return (
        f'<span class="bar"><span style="width: {busy}%; background: {GREEN}"></span>'
        f'<span style="width: {waiting}%; background: {AMBER}"></span></span>{busy} %, {waiting} %'
    )


def _checkpoints(details: JobDetails) -> str:
    if not details.checkpoints:
        return ""
    counted = f"{details.checkpoints_completed} completed, {details.checkpoints_failed} failed"
    if details.restored_checkpoint is not None:
        counted += f"; restored from {details.restored_checkpoint}"
    failed = [each for each in details.checkpoints if each.status is CheckpointStatsStatus.FAILED]
    newest = (*details.checkpoints[-SHOWN_CHECKPOINTS:], *failed[-SHOWN_FAILED_CHECKPOINTS:])
    shown = {each.checkpoint_id for each in newest}
    table = _checkpoint_table((each for each in reversed(details.checkpoints) if each.checkpoint_id in shown), counted)
    if len(shown) == len(details.checkpoints):
        return table
    if details.status not in JOB_TERMINAL:
        # A new picture would close what the reader has opened.
        return f'{table}<div class="quiet">{_all_of(details)} are in the table job.checkpoints</div>'
    every = _checkpoint_table(reversed(details.checkpoints), "")
    return f"{table}<details><summary>{_all_of(details)}</summary>{every}</details>"


def _all_of(details: JobDetails) -> str:
    kept, there = len(details.checkpoints), details.checkpoints_completed + details.checkpoints_failed
    return f"all {kept:,} checkpoints" if kept == there else f"the last {kept:,} of {there:,} checkpoints"


def _checkpoint_table(checkpoints: Iterable[CheckpointStatistics], told: str) -> str:
    header = [_th("checkpoint"), _th("status"), _th("took", "number"), _th("size", "number"), _th("new", "number")]
    return _table([*header, _th(told, "wide")], [_checkpoint(checkpoint) for checkpoint in checkpoints])


def _checkpoint(checkpoint: CheckpointStatistics) -> list[str]:
    cells = [_td(str(checkpoint.checkpoint_id)), _td(status_dot(str(checkpoint.status)))]
    if checkpoint.reason is not None:
        return [*cells, *[_td("")] * 3, _td(escape(checkpoint.reason), "wide")]
    sizes = [_td(format_bytes(size), "number") for size in (checkpoint.size_bytes, checkpoint.incremental_bytes)]
    return [*cells, _td(format_ms(checkpoint.duration_ms), "number"), *sizes, _td("", "wide")]


def _restarts(details: JobDetails) -> str:
    if not details.restarts or details.started_ms is None:
        return ""
    again = times(details.exceptions[-1]) if details.exceptions else ""
    shown = details.restarts[-1:] if again else details.restarts[-SHOWN_RESTARTS:]
    rows = [
        [
            _td(into_the_run(restart, details.started_ms)),
            _td(escape(": ".join(text for text in (again, why(restart.cause)) if text)), "wide"),
        ]
        for restart in reversed(shown)
    ]
    return _table([_th("restarted"), _th("why", "wide")], rows)


def _failure(details: JobDetails) -> str:
    if not has_failed(details) or details.last_failure is None:
        return ""
    return f'<div class="failure">{escape(_told(details.last_failure))}</div>'


def _told(cause: SerializedThrowable) -> str:
    return f"{cause.type_name.rpartition('.')[2]}: {cause.message.strip()}"


def status_dot(status: str, shown: str | None = None) -> str:
    """A status with a dot in its colour before it."""
    colour = _COLOURS.get(status, GREY)
    return f'<span class="dot" style="background: {colour}"></span>{escape(shown or status)}'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(header)}</tr></thead><tbody>{body}</tbody></table>"


def _th(title: str, kind: str = "") -> str:
    return _cell("th", escape(title), kind)


def _td(content: str, kind: str = "") -> str:
    return _cell("td", content, kind)


def _cell(tag: str, content: str, kind: str) -> str:
    return f'<{tag} class="{kind}">{content}</{tag}>' if kind else f"<{tag}>{content}</{tag}>"
