"""A turn that is taken again: what its record tells it, and what it then does."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from flykka.runtime.recording import Recorder
from flykka.runtime.trace.effects import Awaited, Effect, Lookup, ReadClock, Refused, Send, Spawn, Supervise
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Effect as Noted
    from flykka.runtime.trace.records import Turn

E = TypeVar("E", bound=Effect)


class ToldMessage:
    """Tells a turn, while it is taken, what its record holds: numbers and answers, in the order in which it asks."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    def promise(self) -> int | None:
        """The number of the next ask; None where it was not recorded."""
        return next(self._promises, None)

    def lookup(self, path: str) -> tuple[Ref, ...] | None:
        """The refs that were found at `path`, where the next recorded lookup was for this one."""
        if self._lookups and self._lookups[0].path == path:
            return self._lookups.popleft().refs
        return None

    def directs(self) -> bool:
        """Tell whether the turn decides about a child."""
        return bool(self._all(Supervise))

    def refusal(self, path: str) -> Refused | None:
        """The refusal of a spawn at `path`, where that comes next of all that the turn was refused."""
        return self._refusals.popleft() if self._refusals and self._refusals[0].path == path else None

    def time(self) -> int | None:
        """The next time that the turn has read; None where it was not recorded."""
        return next(self._times, None)

    def outcome(self, noted: Sequence[Noted]) -> Awaited | None:
        """The outcome that the turn waits for behind these effects; None where none was recorded."""
        place = sum(effect[0] == "awaited" for effect in noted)
        return self._outcomes[place] if place < len(self._outcomes) else None

    def immediate(self, noted: Sequence[Noted]) -> Awaited | None:
        """The outcome that follows at once on what the turn has noted; None where something else comes before."""
        effects = self.turn.effects
        following = effects[len(noted)] if len(noted) < len(effects) else None
        return following if isinstance(following, Awaited) else None

    def incarnation(self, path: str) -> int | None:
        """The incarnation that was spawned at `path`; None where none was."""
        spawned = (each.ref for each in self._all(Spawn))
        return next((ref.incarnation for ref in spawned if ref.path == path), None)

    @cached_property
    def _promises(self) -> Iterator[int]:
        asked = [each.promise for each in self._all(Send)]
        return iter([promise.incarnation for promise in asked if promise is not None])

    @cached_property
    def _times(self) -> Iterator[int]:
        return iter([each.now_ms for each in self._all(ReadClock)])

    @cached_property
    def _lookups(self) -> deque[Lookup]:
        return deque(self._all(Lookup))

    @cached_property
    def _refusals(self) -> deque[Refused]:
        return deque(self._all(Refused))

    @cached_property
    def _outcomes(self) -> list[Awaited]:
        return self._all(Awaited)

    def _all(self, kind: type[E]) -> list[E]:
        return [each for each in self.turn.effects if isinstance(each, kind)]


class TakenTurn(Recorder):
    """Keeps what a replayed turn did, as the kernel tells a recorder."""

    def __init__(self) -> None:
        self.effects: list[Noted] | None = None
        """None where no turn was taken, or where it is a coroutine that waits."""
        self.failure: SerializedThrowable | None = None
        self.ended: list[tuple[int, list[Noted], SerializedThrowable | None]] = []
        """Coroutines of earlier turns that have come to their end meanwhile."""
        self._recorded: Turn | None = None
        self._told: ToldMessage | None = None
        self._waiting: dict[int, ToldMessage] = {}

    def begin(self, recorded: Turn) -> None:
        self.effects = self.failure = self._told = None
        self._recorded = recorded

    def suspend(self) -> None:
        """The turn is a coroutine that waits, and goes on while other turns are taken."""
        told = self._of_recorded()
        if told is not None:
            self._waiting[told.turn.sequence] = told

    def take_ended(self) -> list[tuple[int, list[Noted], SerializedThrowable | None]]:
        """The coroutines of earlier turns that have ended since this was last asked, by their numbers."""
        ended, self.ended = self.ended, []
        return ended

    @property
    def told(self) -> ToldMessage | None:
        """The record of the turn that runs."""
        cell = RUNNING.cell
        if self._waiting and cell is not None and cell.sequence in self._waiting:
            return self._waiting[cell.sequence]
        return self._of_recorded()

    def of(self, sequence: int | None) -> ToldMessage | None:
        """The record of a turn that has begun before, or of the one in hand."""
        if sequence in self._waiting:
            return self._waiting[sequence]
        told = self._of_recorded()
        return told if told is not None and told.turn.sequence == sequence else None

    def _of_recorded(self) -> ToldMessage | None:
        # Most turns are told nothing.
        if self._told is None and self._recorded is not None:
            self._told = ToldMessage(self._recorded)
        return self._told

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Noted],
        failure: SerializedThrowable | None,
    ) -> None:
        """The turn that was forced, or a coroutine that has waited."""
        if self._recorded is None or sequence == self._recorded.sequence:
            self.effects = effects
            self.failure = failure
        if self._waiting.pop(sequence, None) is not None:
            self.ended.append((sequence, effects, failure))
