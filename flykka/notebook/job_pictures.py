"""How a job has done over its life, in three small pictures: rows per second, watermark lag, times of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from flykka.actors.machines.checkpoint.statistics import CheckpointStatsStatus
from flykka.client.job_details import JobDetails
from flykka.console.formats import format_count, format_lag
from flykka.notebook.colours import AMBER, BLUE, GREEN
from flykka.notebook.sparkline import BARS, bars, line
from flykka.runtime.durations import format_ms


def pictures_html(details: JobDetails) -> str:
    """The pictures side by side; nothing where there is nothing to draw yet."""
    shown = "".join(
        f'<figure><figcaption>{escape(title)}</figcaption>{picture}<div class="quiet">{escape(tells)}</div></figure>'
        for title, picture, tells in _pictures(details)
    )
    return f'<div class="pictures">{shown}</div>' if shown else ""


def _pictures(details: JobDetails) -> Iterator[tuple[str, str, str]]:
    """Title, picture, and the same in words."""
    rates = details.throughput.values
    if any(rates):
        tells = f"at most {format_count(max(rate or 0 for rate in rates))}, {_steps(details.throughput.step_ms)}"
        yield "rows read per second", line(rates, f"rows read per second: {tells}", BLUE), tells
    lags = details.watermark_lag.values
    known = [lag for lag in lags if lag is not None]
    if known:
        tells = f"{format_lag(round(known[-1]))} at last, at most {format_lag(round(max(known)))}"
        yield "watermark lag", line(lags, f"watermark lag: {tells}", AMBER), tells
    checkpoints = details.checkpoints[-BARS:]
    if checkpoints:
        took = [each.duration_ms if each.status is CheckpointStatsStatus.COMPLETED else None for each in checkpoints]
        failed = took.count(None)
        longest = max((duration for duration in took if duration is not None), default=None)
        told = [] if longest is None else [f"at most {format_ms(longest)}"]
        told += [f"{failed} failed"] if failed else []
        tells = ", ".join(told)
        yield "time of checkpoints", bars(took, f"time of checkpoints: {tells}", GREEN), tells


def _steps(step_ms: int) -> str:
    return f"in steps of {format_ms(step_ms)}"
