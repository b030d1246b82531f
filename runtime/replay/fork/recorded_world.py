"""The rest of the recording around a fork: what came from outside, and what others answered.

A fork takes the turns of the replayed actors itself. Three things it cannot know, and takes from the record as long as
they fit: what was told from outside of all turns (and in the turns of boundaries before the fork), the outcomes of
blocking work, and the turns of each actor that is not replayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flykka.messages.wire.ref import Ref
from flykka.runtime.path import ROOT, TEMP, USER, split_path
from flykka.runtime.signals import DeathWatchNotification, Stop, Terminated
from flykka.runtime.trace.effects import Kill, Pipe, Send, Undecoded
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn

FromOutside = Turn | Killed | Spawned
"""A record that comes about in the fork at its own time: a message, a stop, a kill, an actor."""


@dataclass(slots=True)
class Outcome:
    """The outcome of blocking work: `turn` brought it, `delay_ms` after the work was begun on hearing `heard`."""

    work: object
    heard: object
    turn: Turn
    delay_ms: int


class RecordedWorld:
    """Sorted out of the records from the fork on.

    Args:
        records: from the turn on at which the fork begins.
        is_boundary: whether an actor is not replayed, as far as that is known there.
        is_waiting: whether the message of a turn lies in the mailbox of its actor already.
    """

    def __init__(
        self, records: Iterable[Record], is_boundary: Callable[[Ref], bool], is_waiting: Callable[[Turn], bool]
    ) -> None:
        self.from_outside: list[FromOutside] = []
        """In their order; the shutdown of the recorded system is none of them."""
        self.in_flight: list[Turn] = []
        """Turns whose message was on its way where the fork begins, from or to an actor that is not replayed."""
        self.turns_by_actor: defaultdict[Ref, list[Turn]] = defaultdict(list)
        """The turns of each actor."""
        self.outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        """Outcomes of the blocking work that is begun from here on, by the path of the actor."""
        self._is_boundary = is_boundary
        self._is_waiting = is_waiting
        self._turns: dict[int, Turn] = {}
        self._pipes: dict[int, list[object]] = {}
        self._killers: dict[str, Ref] = {}
        for record in records:
            if _is_shutdown(record):
                break
            self._sort(record)

    def remove_turn(self, turn: Turn) -> bool:
        """Take out what would bring the message of a turn; False where nothing here does."""
        if turn in self.in_flight:
            self.in_flight.remove(turn)
        elif turn in self.from_outside:
            self.from_outside.remove(turn)
        else:
            return False
        return True

    def killer_of(self, ref: Ref) -> Ref | None:
        """The actor that killed this one, or one above it, in a turn; None where that was done from outside."""
        path = ref.path
        while path not in (USER, ROOT):
            if path in self._killers:
                return self._killers[path]
            path, _ = split_path(path)
        return None

    def _sort(self, record: Record) -> None:
        match record:
            case Turn():
                self._turns[record.sequence] = record
                self.turns_by_actor[record.recipient].append(record)
                for effect in record.effects:
                    if isinstance(effect, Kill):
                        self._killers[effect.ref.path] = record.recipient
                self._pipes[record.sequence] = [effect.work for effect in record.effects if isinstance(effect, Pipe)]
                self._sort_turn(record)
            case Killed() | Spawned():
                self.from_outside.append(record)

    def _sort_turn(self, turn: Turn) -> None:
        begun_in = None if turn.cause is None else self._turns.get(turn.cause)
        if begun_in is None:
            if self._is_from_outside(turn):
                is_told = (
                    turn.kind == "message" and turn.cause is not None and turn.sender not in (None, turn.recipient)
                )
                (self.in_flight if is_told else self.from_outside).append(turn)
        elif self._is_outcome(turn, begun_in):
            works = self._pipes[begun_in.sequence]
            delay_ms = max(0, turn.now_ms - begun_in.now_ms)
            self.outcomes[turn.recipient.path].append(Outcome(works.pop(0), begun_in.message, turn, delay_ms))

    def _is_from_outside(self, turn: Turn) -> bool:
        """Tell whether the fork would not come by itself to a turn whose cause is none, or lies before the fork."""
        message, sender = turn.message, turn.sender
        if turn.kind == "signal":
            if isinstance(message, DeathWatchNotification):
                return turn.cause is not None and self._is_boundary(message.ref)
            return isinstance(message, Stop) and not self._is_waiting(turn)
        if turn.kind == "timer" or isinstance(message, Terminated):
            return False
        if turn.cause is None:
            # What has a sender and no cause is the kernel's own.
            return sender is None or sender.path.startswith(TEMP) or self._is_boundary(sender)
        if self._is_boundary(turn.recipient):
            return sender != turn.recipient
        return not self._is_waiting(turn)

    def _is_outcome(self, turn: Turn, begun_in: Turn) -> bool:
        if turn.kind != "message" or not self._pipes[begun_in.sequence] or begun_in.recipient != turn.recipient:
            return False
        told = (effect.message for effect in begun_in.effects if isinstance(effect, Send))
        return isinstance(turn.message, Undecoded) or turn.message not in told


def _is_shutdown(record: Record) -> bool:
    return isinstance(record, Turn) and record.recipient.path in (ROOT, USER) and isinstance(record.message, Stop)
