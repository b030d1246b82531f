"""Formats numbers, sizes and times as short texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from flykka.messages.attempt.answers import WorkProgress
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.tasks.task import EventTimeHold
from flykka.runtime.durations import format_ms

NOTHING = "-"
STOPPED = "STOPPED"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = (("y", 365 * 86_400_000, 2), ("d", 86_400_000, 2), ("h", 3_600_000, 2), ("min", 60_000, 1))


def format_bytes(size: int) -> str:
    if size < 1_024:
        return f"{size} B"
    amount = size / 1_024
    for unit in ("KiB", "MiB", "GiB"):
        if amount < 1_024:
            return f"{amount:.1f} {unit}"
        amount /= 1_024
    return f"{amount:.1f} TiB"


def format_count(count: float) -> str:
    """Format a count: in full up to ten millions, then in millions or thousands of millions."""
    if count < 10_000_000:
        return f"{count:,.0f}"
    if count < 10_000_000_000:
        return f"{count / 1_000_000:,.1f} M"
    return f"{count / 1_000_000_000:,.1f} G"


def format_files_waiting(files: int) -> str:
    """Format the number of files that wait to be read, or return "" for 0."""
    return f"{format_count(files)} file{'s wait' if files > 1 else ' waits'}" if files else ""


def format_hold(name: str, hold: EventTimeHold, now_ms: int) -> str:
    """Name the subtask or partition of the source for which event time waits, and how long it has had no rows."""
    of = f"partition {hold.partition!r} of {name}" if hold.partition else name
    if hold.watermark_ms == WATERMARK_MIN:
        return f"event time waits for {of}: no row with an event time for {lasting(now_ms - hold.since_ms)}"
    return (
        f"event time waits at {format_event_time(hold.watermark_ms)} for {of}:"
        f" no row for {lasting(now_ms - hold.since_ms)}"
    )


def format_event_time_wait(details: JobDetails) -> str:
    """Name the source or partition for which event time waits, or return "" if all have had rows recently."""
    holds = [(vertex, vertex.held_back_by) for vertex in details.vertices if vertex.held_back_by is not None]
    if not holds:
        return ""
    vertex, hold = min(holds, key=lambda each: each[1].watermark_ms)
    return format_hold(", ".join(vertex.sources) or vertex.name, hold, (details.started_ms or 0) + details.duration_ms)


def format_long_work(works: Sequence[WorkProgress]) -> str:
    if not works:
        return ""
    oldest = works[0]
    tasks = f"{oldest.tasks_done} of {counted(oldest.tasks, 'Spark task')}" if oldest.tasks else "no Spark task yet"
    others = f", and {len(works) - 1} more" if len(works) > 1 else ""
    return f"{tasks}, {oldest.age_ms // 1_000} s into {oldest.what}{others}"


def format_event_time(ms: int | None) -> str:
    """Format an event time in UTC, to the second. If its year is outside the calendar, format the ms."""
    if ms is None:
        return NOTHING
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{ms} ms"


def format_lag(ms: int | None) -> str:
    """Format a lag in the largest unit that is precise enough. A negative lag is ahead."""
    if ms is None:
        return NOTHING
    if ms < 0:
        return f"-{format_lag(-ms)}"
    for unit, length_ms, least in _LONG:
        if ms >= least * length_ms:
            return f"{ms // length_ms} {unit}"
    return format_ms(ms)


def displayed_status(details: JobDetails) -> str:
    """Return the status of a job. A job that was stopped with a checkpoint is FINISHED in Flink, and STOPPED here."""
    return STOPPED if details.was_stopped else details.status


def lasting(ms: int) -> str:
    """Format a duration: `0.4 s`, `41 s`, `3 min 5 s`. A negative duration, from differing clocks, becomes 0."""
    seconds = max(0, ms) / 1_000
    if seconds >= 60:
        return format_ms(ms)
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def counted(number: int, what: str) -> str:
    """Format a number with its unit: `1 task`, `3 tasks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], alignment: str = "") -> Iterator[str]:
    """Yield the header and the rows as lines, each column as wide as its widest cell.

    `alignment` has a `<` or a `>` for each column. By default all columns are left-aligned.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    sides = alignment or "<" * len(header)
    for cells in (header, *rows):
        shaped = zip(cells, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in shaped).rstrip()
