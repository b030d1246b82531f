"""`flykka trace stats`: statistics of a trace, as text and as JSON."""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from flykka.actors.machines.read_model.checkpoint_stats_tracker import CheckpointStatsTracker
from flykka.cli.arguments import TRACE_FILE, describe
from flykka.cli.exit_codes import OK
from flykka.cli.trace.command import EPILOG
from flykka.cli.trace.trace_file import on_trace
from flykka.messages.checkpointing.checkpoint import TriggerCheckpoint
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus, CheckpointTriggered
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.wire.message import Value
from flykka.runtime.durations import format_ms
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.file.reader import Damage, TraceReader
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name, unwrapped
from flykka.traces.origin import beforehand, cut_off, origin
from flykka.views.text.formats import columns, format_bytes

_DESCRIPTION = """\
Show when and by which version a trace was recorded, and its numbers of turns, messages
and actors, the longest waits of messages, checkpoints, failures, dead letters and
kills.
"""
_ROWS = 15
_FAILURES_SHOWN = 20
_REMEMBERED = 1 << 16
"""The number of turns kept in memory. How long messages sent by earlier turns waited is unknown."""
_WAITS_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=on_trace("flykka trace stats", _stats))


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
    yield f"actors: {len(statistics.actors):,}, {len(statistics.killed):,} of them killed"
    yield f"failed turns: {statistics.failed_turns:,}, dead letters: {statistics.dead_letters.total():,}"


def _checkpoints(statistics: TraceStatistics) -> list[str]:
    checkpoints = statistics.in_order()
    earlier, last = checkpoints[:-_ROWS], checkpoints[-_ROWS:]
    rows = [(job_id, str(stats.checkpoint_id), _state(stats), *_figures(stats)) for job_id, stats in last]
    if earlier:
        states = Counter(_state(stats) for _, stats in earlier)
        summary = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
        rows.insert(0, (f"... {len(earlier):,} before", "", summary, "", "", ""))
    return _below("<><>>>", ("checkpoints of job", "id", "state", "duration", "size", "new"), rows)


def _state(stats: CheckpointStatistics) -> str:
    """Return COMPLETED, IN_PROGRESS if the trace ends before the checkpoint, or the reason of its abort."""
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
    return _below("><<", ("turn", "failures, first reports", ""), rows)


def _below(alignment: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return ["", *columns(header, rows, alignment)] if rows else []


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureStatistics:
    """The first report of a failure: the turn that raised it, or the turn whose message contained it."""

    turn: int
    recipient: str
    message: str
    failure: str


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """A message that waited `ms` milliseconds for turn `turn`, and the turn that sent it."""

    ms: int
    turn: int
    recipient: str
    message: str
    sent_in: int


class MailboxWaits:
    """Finds the messages that waited longest between the turns of sender and recipient, with little memory.

    Traces do not record how long a turn takes, but messages to a slow actor wait, so these times identify it.
    """

    def __init__(self) -> None:
        self._numbers = array("q", [-1]) * _REMEMBERED
        self._times = array("q", [0]) * _REMEMBERED
        self._longest: list[Wait] = []

    def add(self, turn: Turn) -> None:
        place = turn.sequence % _REMEMBERED
        self._numbers[place], self._times[place] = turn.sequence, turn.now_ms
        # A message from an actor to itself may be the result of blocking work, so it did not only wait.
        if turn.cause is None or turn.sender is None or turn.sender == turn.recipient:
            return
        sent = turn.cause % _REMEMBERED
        if self._numbers[sent] != turn.cause:
            return
        ms = turn.now_ms - self._times[sent]
        if len(self._longest) < _WAITS_SHOWN or ms > self._longest[0].ms:
            wait = Wait(ms, turn.sequence, turn.recipient.path, message_name(turn.message), turn.cause)
            (heapq.heappush if len(self._longest) < _WAITS_SHOWN else heapq.heapreplace)(self._longest, wait)

    def longest(self) -> list[Wait]:
        return sorted((wait for wait in self._longest if wait.ms > 0), key=lambda wait: (-wait.ms, wait.turn))


@dataclass(slots=True, kw_only=True)
class TraceStatistics:
    """Statistics of a trace. `failed_turns` counts turns that raised, `failures` are the first reports of failures."""

    begin_ms: int | None = None
    end_ms: int | None = None
    turns: int = 0
    failed_turns: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    actors: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    killed: list[str] = field(default_factory=list)
    failures: dict[str, FailureStatistics] = field(default_factory=dict)
    checkpoints: dict[str, CheckpointStatsTracker] = field(default_factory=dict)
    waits: MailboxWaits = field(default_factory=MailboxWaits)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> Self:
        statistics = cls()
        for record in records:
            statistics._add(record)
        return statistics

    @property
    def duration_ms(self) -> int:
        return 0 if self.begin_ms is None or self.end_ms is None else self.end_ms - self.begin_ms

    def in_order(self) -> list[tuple[str, CheckpointStatistics]]:
        return [
            (job_id, stats)
            for job_id, tracker in sorted(self.checkpoints.items())
            for stats in sorted(tracker.history, key=lambda stats: stats.checkpoint_id)
        ]

    def _add(self, record: Record) -> None:
        self.begin_ms = record.now_ms if self.begin_ms is None else min(self.begin_ms, record.now_ms)
        self.end_ms = record.now_ms if self.end_ms is None else max(self.end_ms, record.now_ms)
        match record:
            case Turn():
                self._add_turn(record)
            case Killed(ref=ref):
                self.killed.append(ref.path)
            case DeadLetterRecord(message=message, reason=reason):
                self.dead_letters[f"{message_name(message)}: {reason}"] += 1

    def _add_turn(self, turn: Turn) -> None:
        self.turns += 1
        self.waits.add(turn)
        self.kinds[turn.kind] += 1
        self.messages[message_name(turn.message)] += 1
        self.actors[recipient_of(turn).path] += 1
        self.failed_turns += turn.failure is not None
        if len(self.failures) < _FAILURES_SHOWN and (failure := failure_of(turn)) is not None:
            self._add_failure(turn, failure_text(failure))
        self._add_checkpoint(unwrapped(turn.message))

    def _add_checkpoint(self, message: Value | Undecoded) -> None:
        """Add a checkpoint event. If the trace lacks the start of the checkpoint, a trigger message to a task starts
        it.
        """
        if not isinstance(message, TriggerCheckpoint | CheckpointTriggered | CheckpointCompleted | CheckpointAborted):
            return
        tracker = self.checkpoints.setdefault(message.job_id, CheckpointStatsTracker({}, sys.maxsize))
        if not isinstance(message, TriggerCheckpoint):
            tracker.on_message(message)
        elif tracker.lookup(message.checkpoint_id) is None:
            tracker.on_message(
                CheckpointTriggered(
                    job_id=message.job_id,
                    checkpoint_id=message.checkpoint_id,
                    timestamp_ms=message.timestamp_ms,
                    num_subtasks=0,
                )
            )

    def _add_failure(self, turn: Turn, failure: str) -> None:
        first = self.failures.get(failure)
        # Turns may be out of order in the file.
        if first is None or turn.sequence < first.turn:
            self.failures[failure] = FailureStatistics(
                turn=turn.sequence,
                recipient=turn.recipient.path,
                message=message_name(turn.message),
                failure=failure,
            )
