"""What a trace amounts to: a fold over its records, whose size is that of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from flykka.cli.trace_waits import Waits
from flykka.messages.checkpointing.checkpoint import TriggerCheckpoint
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name, unwrapped

_FAILURES_SHOWN = 20
_IN_PROGRESS = "IN_PROGRESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatistics:
    """One checkpoint of one job. `state` is COMPLETED, IN_PROGRESS where the trace ends before it, or why it ended."""

    job_id: str
    checkpoint_id: int
    state: str
    duration_ms: int | None = None
    size_bytes: int | None = None
    incremental_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureStatistics:
    """A failure where it was first told of: the turn that raised it, or whose message brought it."""

    turn: int
    recipient: str
    message: str
    failure: str


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
    checkpoints: dict[tuple[str, int], CheckpointStatistics] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """The statistics of these records."""
        made = cls()
        for record in records:
            made._take(record)
        return made

    @property
    def duration_ms(self) -> int:
        """From the first record to the last."""
        return 0 if self.begin_ms is None or self.end_ms is None else self.end_ms - self.begin_ms

    def in_order(self) -> list[CheckpointStatistics]:
        """The checkpoints, job by job."""
        return [checkpoint for _, checkpoint in sorted(self.checkpoints.items())]

    def _take(self, record: Record) -> None:
        self.begin_ms = record.now_ms if self.begin_ms is None else min(self.begin_ms, record.now_ms)
        self.end_ms = record.now_ms if self.end_ms is None else max(self.end_ms, record.now_ms)
        match record:
            case Turn():
                self._take_turn(record)
            case Killed(ref=ref):
                self.killed.append(ref.path)
            case DeadLetterRecord(message=message, reason=reason):
                self.dead_letters[f"{message_name(message)}: {reason}"] += 1

    def _take_turn(self, turn: Turn) -> None:
        self.turns += 1
        self.waits.take(turn)
        self.kinds[turn.kind] += 1
        self.messages[message_name(turn.message)] += 1
        self.actors[recipient_of(turn).path] += 1
        self.failed_turns += turn.failure is not None
        if len(self.failures) < _FAILURES_SHOWN and (failure := failure_of(turn)) is not None:
            self._take_failure(turn, failure_text(failure))
        for checkpoint in _checkpoints(unwrapped(turn.message)):
            key = checkpoint.job_id, checkpoint.checkpoint_id
            if checkpoint.state != _IN_PROGRESS or key not in self.checkpoints:
                self.checkpoints[key] = checkpoint

    def _take_failure(self, turn: Turn, failure: str) -> None:
        first = self.failures.get(failure)
        # In the order of the file a later turn may come first.
        if first is None or turn.sequence < first.turn:
            self.failures[failure] = FailureStatistics(
                turn=turn.sequence,
                recipient=turn.recipient.path,
                message=message_name(turn.message),
                failure=failure,
            )


def _checkpoints(message: Value | Undecoded) -> Iterator[CheckpointStatistics]:
    match message:
        case TriggerCheckpoint(job_id=job_id, checkpoint_id=checkpoint_id):
            yield CheckpointStatistics(job_id=job_id, checkpoint_id=checkpoint_id, state=_IN_PROGRESS)
        case CheckpointAborted(job_id=job_id, checkpoint_id=checkpoint_id, reason=reason):
            yield CheckpointStatistics(job_id=job_id, checkpoint_id=checkpoint_id, state=reason)
        case CheckpointCompleted():
            yield CheckpointStatistics(
                job_id=message.job_id,
                checkpoint_id=message.checkpoint_id,
                state="COMPLETED",
                duration_ms=message.duration_ms,
                size_bytes=message.size_bytes,
                incremental_bytes=message.incremental_bytes,
            )
        case _:
            return
