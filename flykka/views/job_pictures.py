"""A job over its life, in three small pictures: rows per second, watermark lag, times of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.monitoring.job_details import JobDetails
from flykka.runtime.durations import format_ms
from flykka.views.html.markup import AMBER, BLUE, GREEN, Html, element, fragment, quiet
from flykka.views.html.sparkline import BARS, bars, line
from flykka.views.job_text import rates
from flykka.views.text.formats import format_count, format_lag


def pictures_html(details: JobDetails) -> Html:
    """The pictures side by side; nothing where there is nothing to draw yet."""
    figures = [
        element("figure", element("figcaption", title), picture, quiet(tells))
        for title, picture, tells in _pictures(details)
    ]
    return element("div", *figures, class_="pictures") if figures else fragment()


def _pictures(details: JobDetails) -> Iterator[tuple[str, Html, str]]:
    """Title, picture, and the same in words."""
    read = rates(details)
    if any(read):
        most, step = format_count(max(rate or 0 for rate in read)), format_ms(details.throughput.step_ms)
        tells = f"at most {most}, in steps of {step}"
        yield "rows read per second", line(read, f"rows read per second: {tells}", BLUE), tells
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
        tells = ", ".join(told + ([f"{failed} failed"] if failed else []))
        yield "time of checkpoints", bars(took, f"time of checkpoints: {tells}", GREEN), tells
