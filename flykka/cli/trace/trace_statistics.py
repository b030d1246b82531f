"""Statistics of a trace: a fold over its records, whose size is that of the answer."""

from __future__ import annotations

import heapq
import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from flykka.actors.machines.read_model.checkpoint_stats_tracker import CheckpointStatsTracker
from flykka.messages.checkpointing.checkpoint import TriggerCheckpoint
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointTriggered
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name, unwrapped

_FAILURES_SHOWN = 20
_REMEMBERED = 1 << 16
"""So many turns are remembered: a message that was sent before waited longer than can be told."""
_WAITS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureStatistics:
    """A failure where it was first told of: the turn that raised it, or whose message brought it."""

    turn: int
    recipient: str
    message: str
    failure: str


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """A message that waited `ms` until turn `turn`, and where it was sent."""

    ms: int
    turn: int
    recipient: str
    message: str
    sent_in: int


class Waits:
    """The longest waits of messages from the turn that sent them to the one that took them, in little memory.

    How long a turn took is not recorded. But what is told to a slow actor waits, and so this names it.
    """

    def __init__(self) -> None:
        self._numbers = array("q", [-1]) * _REMEMBERED
        self._times = array("q", [0]) * _REMEMBERED
        self._longest: list[Wait] = []

    def add(self, turn: Turn) -> None:
        """The next turn, in whatever order."""
        place = turn.sequence % _REMEMBERED
        self._numbers[place], self._times[place] = turn.sequence, turn.now_ms
        # What an actor tells itself has not waited only: it may be what blocking work has come to.
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
        """The waits that lasted at all, the longest first."""
        return sorted((wait for wait in self._longest if wait.ms > 0), key=lambda wait: (-wait.ms, wait.turn))


@dataclass(slots=True, kw_only=True)
class TraceStatistics:
    """Counts of a trace. `failed_turns` are those that raised, `failures` the first few that were told of at all."""

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
    """By job."""
    waits: Waits = field(default_factory=Waits)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> Self:
        """The statistics of these records."""
        made = cls()
        for record in records:
            made._add(record)
        return made

    @property
    def duration_ms(self) -> int:
        """From the first record to the last."""
        return 0 if self.begin_ms is None or self.end_ms is None else self.end_ms - self.begin_ms

    def in_order(self) -> list[tuple[str, CheckpointStatistics]]:
        """The checkpoints with their jobs, job by job."""
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
        """Each listener is told the same; where the trace does not have the beginning of a checkpoint, its tasks do."""
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
        # In the order of the file a later turn may come first.
        if first is None or turn.sequence < first.turn:
            self.failures[failure] = FailureStatistics(
                turn=turn.sequence,
                recipient=turn.recipient.path,
                message=message_name(turn.message),
                failure=failure,
            )
