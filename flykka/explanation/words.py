"""Lengths of time and numbers of things, as they stand in a sentence."""

from __future__ import annotations

from flykka.runtime.durations import format_ms


def lasting(ms: int) -> str:
    """A length of time: `0.4 s`, `41 s`, `3 min 5 s`. Less than nothing, by clocks that differ, is nothing."""
    seconds = max(0, ms) / 1_000
    if seconds >= 60:
        return format_ms(ms)
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def counted(number: int, what: str) -> str:
    """So many of something: `1 task`, `3 tasks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
