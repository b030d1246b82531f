"""The origin of a trace and its missing parts, for all displays of a trace."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.runtime.trace.file.reader import Damage, TraceReader
from flykka.views.text.formats import format_bytes


def origin(trace: TraceReader) -> str:
    ring = trace.header.ring
    if ring is None:
        return f"recording of actor system {trace.header.system!r}"
    extent = f"the first {ring.not_kept:,} turns were not kept" if ring.not_kept else "nothing is missing before it"
    return f"flight record of actor system {trace.header.system!r}: {extent}"


def cut_off(damage: Damage) -> str:
    return f"the trace ends at byte {damage.offset:,}: {damage.reason}; all turns before are shown"


def beforehand(trace: TraceReader) -> Iterator[str]:
    header = trace.header
    if header.ring is not None:
        yield origin(trace)
    if header.redacted:
        yield f"redacted before they were written: {', '.join(sorted(header.redacted))}"
    if header.capped is not None:
        size = format_bytes(header.capped.max_bytes)
        turn = f"{header.capped.sequence:,}"
        yield f"the recording reached its limit of {size}: turn {turn} and all later turns are missing"


def shortcomings(trace: TraceReader) -> Iterator[str]:
    """Yield the reasons why the trace is incomplete. Reading to the end of the file may take a second."""
    yield from beforehand(trace)
    if (damage := trace.truncated) is not None:
        yield cut_off(damage)


def begin_of(trace: TraceReader) -> int:
    return next((record.now_ms for record in trace.records()), 0)
