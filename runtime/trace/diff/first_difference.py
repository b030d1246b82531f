"""The first difference between two recordings.

Runs are compared actor by actor: the first turn of an actor in one run with its first turn in the other, and so on. The
interleaving of different actors' turns, their times and their numbers are not compared; an actor's messages, their
senders and its effects are. If several actors differ, the actor whose turn came first in the left run is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flykka.runtime.trace.diff.value_comparator import ID, FieldDifference, ValueComparator
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import message_name

LOOKED_AHEAD: Final = 5_000
"""The maximum number of records that are searched for a record that comes later."""
_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class RecordedCause:
    """A turn in the chain of causes of another turn: its number, its actor, and the name of the message."""

    turn: int
    recipient: str
    message: str


class TraceSide:
    """A side of the comparison: the records read from its run that have no counterpart yet."""

    def __init__(self, records: Iterable[Record], is_compared: Callable[[Record], bool]) -> None:
        self._records = iter(records)
        self._is_compared = is_compared
        self._names: dict[str, str] = {}
        # Maps each turn to its cause and its description, because turns themselves would need a hundred times the
        # memory.
        self._turns: dict[int, tuple[int | None, str, str]] = {}
        self.queues: dict[str, deque[Record]] = {}
        self.ended = False

    def read(self) -> tuple[str, Record] | None:
        """Return the next record to compare, with the actor's name common to both runs. Returns None at the end."""
        for record in self._records:
            if isinstance(record, Turn):
                self._turns[record.sequence] = (record.cause, record.recipient.path, message_name(record.message))
                if len(self._turns) > _REMEMBERED:
                    del self._turns[next(iter(self._turns))]
            if self._is_compared(record):
                return self._name(recipient_of(record).path), record
        self.ended = True
        return None

    def causes(self, record: Record | None) -> tuple[RecordedCause, ...]:
        chain: list[RecordedCause] = []
        turn = record.cause if isinstance(record, Turn) else None
        while turn is not None and turn in self._turns:
            earlier, recipient, message = self._turns[turn]
            chain.append(RecordedCause(turn, recipient, message))
            turn = earlier
        return tuple(chain)

    def ahead(self, actor: str) -> Iterator[Record]:
        yield from self.queues.get(actor, ())
        for _ in range(LOOKED_AHEAD):
            record = self.read()
            if record is None:
                return
            if record[0] == actor:
                yield record[1]

    def _name(self, path: str) -> str:
        """Return the path with its ids numbered in order, because another run has other ids."""
        return ID.sub(lambda match: self._names.setdefault(match[0], f"<id {len(self._names) + 1}>"), path)


VARYING: Final = ("*_ms", "incarnation")
"""The fields that differ between any two runs: times, and the incarnations of actors."""

_CHECKED_EVERY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The record at which two runs diverge: record `number` of `actor`, counted from 1.

    A side is None if its run has no further record of this actor. `fields` are the differing fields, with the causes on
    both sides, nearest first. `moved_to` is the number of the turn in which the right run has the left run's record, so
    that only the order differs.
    """

    actor: str
    number: int
    left: Record | None
    right: Record | None
    fields: tuple[FieldDifference, ...]
    left_causes: tuple[RecordedCause, ...]
    right_causes: tuple[RecordedCause, ...]
    moved_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison: the number of equal records, the number of actors, and the first difference."""

    same: int
    actors: int
    difference: Difference | None


def first_difference(
    left: Iterable[Record],
    right: Iterable[Record],
    *,
    is_compared: Callable[[Record], bool] = lambda record: True,
    ignored: Iterable[str] = VARYING,
    renames: bool = True,
) -> Comparison:
    """Compare two recordings.

    Args:
        left: the records of one recording, in the order in which they started.
        right: the records of the other recording.
        is_compared: returns True for records to compare.
        ignored: patterns of the names of fields to ignore.
        renames: True if ids may differ in the other run, as long as they do so consistently.
    """
    return _Comparing(
        TraceSide(left, is_compared),
        TraceSide(right, is_compared),
        ValueComparator(ignored=tuple(ignored), renames=renames),
    ).run()


class _Comparing:
    def __init__(self, left: TraceSide, right: TraceSide, comparator: ValueComparator) -> None:
        self._left = left
        self._right = right
        self._comparator = comparator
        self._counts: dict[str, int] = {}
        self._same = 0
        # The first difference of each actor, whose later records are not compared.
        self._differences: dict[str, tuple[Record | None, Record | None, tuple[FieldDifference, ...]]] = {}

    def run(self) -> Comparison:
        steps = 0
        while not (self._left.ended and self._right.ended):
            for side in (self._left, self._right):
                if not side.ended and (record := side.read()) is not None:
                    self._take(side, *record)
            steps += 1
            if steps % _CHECKED_EVERY == 0:
                self._record_rest()
                if self._differences and self._is_settled():
                    break
        self._record_rest()
        return Comparison(same=self._same, actors=len(self._counts), difference=self._first())

    def _take(self, side: TraceSide, actor: str, record: Record) -> None:
        queue = side.queues.setdefault(actor, deque())
        if actor not in self._differences:
            queue.append(record)
            self._match(actor)
        elif len(queue) < LOOKED_AHEAD:
            # Later records show whether only the order differs.
            queue.append(record)

    def _match(self, actor: str) -> None:
        lefts, rights = self._left.queues.get(actor), self._right.queues.get(actor)
        if not lefts or not rights:
            return
        one, other = lefts.popleft(), rights.popleft()
        self._counts[actor] = self._counts.get(actor, 0) + 1
        unlike = tuple(islice(self._field_differences(one, other), 20))
        if unlike:
            self._differences[actor] = (one, other, unlike)
        else:
            self._same += 1

    def _field_differences(self, first: Record, second: Record) -> Iterator[FieldDifference]:
        left, right = _compared(first), _compared(second)
        if not self._comparator.ignores("now_ms"):
            left["now_ms"], right["now_ms"] = first.now_ms, second.now_ms
        if left != right:
            yield from self._comparator.differences(left, right)

    def _is_settled(self) -> bool:
        """Return True if no earlier difference is possible: all earlier records of the left run were equal."""
        earliest = min(_place(first, second) for first, second, _ in self._differences.values())
        queues = (
            records[0].sequence
            for actor, records in self._left.queues.items()
            if actor not in self._differences and records
        )
        return all(number > earliest for number in queues)

    def _record_rest(self) -> None:
        for side, other in ((self._left, self._right), (self._right, self._left)):
            for actor, records in side.queues.items():
                if other.ended and records and actor not in self._differences:
                    self._counts[actor] = self._counts.get(actor, 0) + 1
                    pair = (records[0], None) if side is self._left else (None, records[0])
                    self._differences[actor] = (*pair, ())

    def _first(self) -> Difference | None:
        if not self._differences:
            return None
        actor, (first, second, fields) = min(
            self._differences.items(), key=lambda difference: _place(*difference[1][:2])
        )
        return Difference(
            actor=actor,
            number=self._counts[actor],
            left=first,
            right=second,
            fields=fields,
            left_causes=self._left.causes(first),
            right_causes=self._right.causes(second),
            moved_to=self._moved_to(actor, first),
        )

    def _moved_to(self, actor: str, record: Record | None) -> int | None:
        if record is None:
            return None
        ahead = self._right.ahead(actor)
        return next((other.sequence for other in ahead if not any(self._field_differences(record, other))), None)


def _place(first: Record | None, second: Record | None) -> int:
    record = first or second
    assert record is not None
    return record.sequence


def _compared(record: Record) -> dict[str, Any]:
    kind: dict[str, Any] = {"record": type(record).__name__}
    match record:
        case Turn():
            sender = None if record.sender is None else record.sender.path
            failure = record.failure
            error = None if failure is None else f"{failure.type_name}: {failure.message}"
            content = {"kind": record.kind, "message": record.message, "sender": sender}
            return kind | content | {"effects": record.effects, "failure": error}
        case DeadLetterRecord():
            return kind | {"message": record.message, "reason": record.reason}
        case Spawned():
            return kind | {"actor": record.actor}
        case Killed():
            return kind
