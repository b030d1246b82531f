"""What a trace is a record of, and what is missing from it: told wherever something of it is shown."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.runtime.trace.reader import Damage, Trace


def origin(trace: Trace) -> str:
    """Which system was recorded, and how much of it."""
    ring = trace.header.ring
    if ring is None:
        return f"recording of actor system {trace.header.system!r}"
    kept = f"the first {ring.not_kept:,} turns were not kept" if ring.not_kept else "nothing is missing before it"
    return f"flight record of actor system {trace.header.system!r}: {kept}"


def cut_off(damage: Damage) -> str:
    """Where the trace ends before its file does."""
    return f"the file is damaged at byte {damage.offset:,} ({damage.reason}): what comes before is shown"


def shortcomings(trace: Trace) -> Iterator[str]:
    """All that the trace does not tell though it happened. Looks for the end of the file: that may take a second."""
    if trace.header.ring is not None and trace.header.ring.not_kept:
        yield f"{trace.header.ring.not_kept:,} turns before the first one were not kept by the flight recorder"
    if (damage := trace.truncated) is not None:
        yield cut_off(damage)
