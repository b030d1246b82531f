"""The statistics of a trace, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from flykka.cli.trace_statistics import TraceStatistics
from flykka.console.formats import format_bytes
from flykka.runtime.durations import format_ms
from flykka.runtime.trace.file.reader import Damage, TraceReader
from flykka.traces.origin import beforehand, cut_off, origin

_ROWS = 15


def report_json(trace: TraceReader, statistics: TraceStatistics, damage: Damage | None) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "file": str(trace.path),
        "header": {**asdict(trace.header), "redacted": sorted(trace.header.redacted)},
        "truncated": None if damage is None else asdict(damage),
        "begin_ms": statistics.begin_ms,
        "duration_ms": statistics.duration_ms,
        "turns": statistics.turns,
        "kinds": dict(statistics.kinds.most_common()),
        "messages": dict(statistics.messages.most_common()),
        "actors": dict(statistics.actors.most_common()),
        "checkpoints": [asdict(checkpoint) for checkpoint in statistics.in_order()],
        "longest_waits": [asdict(wait) for wait in statistics.waits.longest()],
        "failed_turns": statistics.failed_turns,
        "failures": [asdict(failure) for failure in statistics.failures.values()],
        "dead_letters": dict(statistics.dead_letters.most_common()),
        "killed": statistics.killed,
    }


def write_report(
    name: str, trace: TraceReader, statistics: TraceStatistics, damage: Damage | None, out: TextIO
) -> None:
    """Everything that a person wants to know first."""
    lines = [*_head(name, trace, statistics, damage), *_checkpoints(statistics)]
    seconds = statistics.duration_ms / 1000
    lines += _counts("messages", statistics.messages, seconds)
    lines += _counts("actors", statistics.actors, seconds)
    lines += _waits(statistics)
    lines += _failures(statistics)
    lines += _counts("dead letters", statistics.dead_letters, seconds)
    out.write("\n".join(lines) + "\n")


def _head(name: str, trace: TraceReader, statistics: TraceStatistics, damage: Damage | None) -> Iterable[str]:
    header, turns = trace.header, statistics.turns
    yield f"{name}: {origin(trace)}"
    yield f"written by flykka ({header.package}) on Python {header.python}, format {header.format_version}"
    if statistics.begin_ms is not None:
        begin = datetime.fromtimestamp(statistics.begin_ms / 1000, UTC)
        yield f"from {begin:%Y-%m-%d %H:%M:%S} UTC on, {format_ms(statistics.duration_ms)} long"
    yield from (note for note in beforehand(trace) if note != origin(trace))
    if damage is not None:
        yield cut_off(damage)
    kinds = ", ".join(f"{kind}: {count:,}" for kind, count in statistics.kinds.most_common())
    yield f"turns: {turns:,}{f' ({kinds})' if kinds else ''}"
    yield f"actors: {len(statistics.actors):,}, of which {len(statistics.killed):,} were killed"
    yield f"failed turns: {statistics.failed_turns:,}, dead letters: {statistics.dead_letters.total():,}"


def _checkpoints(statistics: TraceStatistics) -> list[str]:
    checkpoints = statistics.in_order()
    earlier, last = checkpoints[:-_ROWS], checkpoints[-_ROWS:]
    rows = [
        (
            checkpoint.job_id,
            str(checkpoint.checkpoint_id),
            checkpoint.state,
            "" if checkpoint.duration_ms is None else format_ms(checkpoint.duration_ms),
            "" if checkpoint.size_bytes is None else format_bytes(checkpoint.size_bytes),
            "" if checkpoint.incremental_bytes is None else format_bytes(checkpoint.incremental_bytes),
        )
        for checkpoint in last
    ]
    if earlier:
        states = Counter(checkpoint.state for checkpoint in earlier)
        counted = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
        rows.insert(0, (f"... {len(earlier):,} before", "", counted, "", "", ""))
    return _table("<><>>>", ("checkpoints of job", "id", "state", "duration", "size", "new"), rows)


def _counts(what: str, counts: Counter[str], seconds: float) -> list[str]:
    def rate(count: int) -> str:
        return f"{count / seconds:,.1f}" if seconds else ""

    most = counts.most_common(_ROWS)
    rows = [(f"{count:,}", rate(count), name) for name, count in most]
    if len(counts) > len(most):
        rest = counts.total() - sum(count for _, count in most)
        rows.append((f"{rest:,}", rate(rest), f"... {len(counts) - len(most):,} others"))
    return _table(">><", ("count", "per second", what), rows)


def _waits(statistics: TraceStatistics) -> list[str]:
    rows = [
        (format_ms(wait.ms), str(wait.turn), f"{wait.recipient} <- {wait.message}", f"sent in {wait.sent_in}")
        for wait in statistics.waits.longest()
    ]
    return _table(">><<", ("longest waits", "turn", "message", ""), rows)


def _failures(statistics: TraceStatistics) -> list[str]:
    rows = [
        (str(each.turn), f"{each.recipient} <- {each.message}", each.failure) for each in statistics.failures.values()
    ]
    return _table("><<", ("turn", "failures, where first told", ""), rows)


def _table(alignment: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in columns behind an empty line; none at all where there is no row. `alignment` has a `<` or `>` each."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        shaped = zip(cells, alignment, widths, strict=True)
        return "  ".join(f"{cell:{side}{width}}" for cell, side, width in shaped).rstrip()

    return ["", line(header), *map(line, rows)]
