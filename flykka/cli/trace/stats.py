"""`flykka trace stats`: what a trace amounts to, as text and as JSON."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from flykka.cli.arguments import TRACE_FILE, describe
from flykka.cli.exit_codes import OK
from flykka.cli.trace.command import EPILOG
from flykka.cli.trace.trace_file import run_on_trace
from flykka.cli.trace.trace_statistics import TraceStatistics
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.runtime.durations import format_ms
from flykka.runtime.trace.file.reader import Damage, TraceReader
from flykka.traces.origin import beforehand, cut_off, origin
from flykka.views.text.columns import columns
from flykka.views.text.formats import format_bytes

_DESCRIPTION = """\
When and by which version it was recorded, how many turns were taken, which
messages and actors there were, which messages waited longest, checkpoints,
failures, dead letters and kills.
"""
_ROWS = 15


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka trace stats`."""
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--json", action="store_true", help="everything, as one JSON object")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return run_on_trace("flykka trace stats", arguments.file, partial(_stats, arguments=arguments))


def _stats(trace: TraceReader, arguments: argparse.Namespace) -> int:
    statistics, damage = TraceStatistics.from_records(trace.records()), trace.truncated
    if arguments.json:
        print(json.dumps(_json(trace, statistics, damage), indent=2))
    else:
        print("\n".join(_lines(arguments.file, trace, statistics, damage)))
    return OK


def _json(trace: TraceReader, statistics: TraceStatistics, damage: Damage | None) -> dict[str, Any]:
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
        "checkpoints": [_checkpoint_json(job_id, stats) for job_id, stats in statistics.in_order()],
        "longest_waits": [asdict(wait) for wait in statistics.waits.longest()],
        "failed_turns": statistics.failed_turns,
        "failures": [asdict(failure) for failure in statistics.failures.values()],
        "dead_letters": dict(statistics.dead_letters.most_common()),
        "killed": statistics.killed,
    }


def _lines(name: str, trace: TraceReader, statistics: TraceStatistics, damage: Damage | None) -> Iterator[str]:
    seconds = statistics.duration_ms / 1000
    yield from _head(name, trace, statistics, damage)
    yield from _checkpoints(statistics)
    yield from _counts("messages", statistics.messages, seconds)
    yield from _counts("actors", statistics.actors, seconds)
    yield from _waits(statistics)
    yield from _failures(statistics)
    yield from _counts("dead letters", statistics.dead_letters, seconds)


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
    rows = [(job_id, str(stats.checkpoint_id), _state(stats), *_figures(stats)) for job_id, stats in last]
    if earlier:
        states = Counter(_state(stats) for _, stats in earlier)
        counted = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
        rows.insert(0, (f"... {len(earlier):,} before", "", counted, "", "", ""))
    return _below("<><>>>", ("checkpoints of job", "id", "state", "duration", "size", "new"), rows)


def _state(stats: CheckpointStatistics) -> str:
    """COMPLETED, IN_PROGRESS where the trace ends before the checkpoint, or the reason for which it was aborted."""
    return str(stats.reason or stats.status)


def _figures(stats: CheckpointStatistics) -> tuple[str, str, str]:
    if stats.status is not CheckpointStatsStatus.COMPLETED:
        return "", "", ""
    return format_ms(stats.duration_ms), format_bytes(stats.size_bytes), format_bytes(stats.incremental_bytes)


def _checkpoint_json(job_id: str, stats: CheckpointStatistics) -> dict[str, Any]:
    is_complete = stats.status is CheckpointStatsStatus.COMPLETED
    return {
        "job_id": job_id,
        "checkpoint_id": stats.checkpoint_id,
        "state": _state(stats),
        "duration_ms": stats.duration_ms if is_complete else None,
        "size_bytes": stats.size_bytes if is_complete else None,
        "incremental_bytes": stats.incremental_bytes if is_complete else None,
    }


def _counts(what: str, counts: Counter[str], seconds: float) -> list[str]:
    def rate(count: int) -> str:
        return f"{count / seconds:,.1f}" if seconds else ""

    most = counts.most_common(_ROWS)
    rows = [(f"{count:,}", rate(count), name) for name, count in most]
    if len(counts) > len(most):
        rest = counts.total() - sum(count for _, count in most)
        rows.append((f"{rest:,}", rate(rest), f"... {len(counts) - len(most):,} others"))
    return _below(">><", ("count", "per second", what), rows)


def _waits(statistics: TraceStatistics) -> list[str]:
    rows = [
        (format_ms(wait.ms), str(wait.turn), f"{wait.recipient} <- {wait.message}", f"sent in {wait.sent_in}")
        for wait in statistics.waits.longest()
    ]
    return _below(">><<", ("longest waits", "turn", "message", ""), rows)


def _failures(statistics: TraceStatistics) -> list[str]:
    rows = [
        (str(each.turn), f"{each.recipient} <- {each.message}", each.failure) for each in statistics.failures.values()
    ]
    return _below("><<", ("turn", "failures, where first told", ""), rows)


def _below(alignment: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table behind an empty line; none at all where there is no row."""
    return ["", *columns(header, rows, alignment)] if rows else []
