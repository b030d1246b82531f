"""A replayed turn: the inputs from its record, and its effects."""

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
    from flykka.runtime.recording import Effect as EffectTuple
    from flykka.runtime.trace.records import Turn

E = TypeVar("E", bound=Effect)


class TurnInputs:
    """Provides a turn with the inputs of its record: numbers and results, in the order of its requests."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    def promise(self) -> int | None:
        return next(self._promises, None)

    def lookup(self, path: str) -> tuple[Ref, ...] | None:
        if self._lookups and self._lookups[0].path == path:
            return self._lookups.popleft().refs
        return None

    def directs(self) -> bool:
        return bool(self._all(Supervise))

    def refusal(self, path: str) -> Refused | None:
        return self._refusals.popleft() if self._refusals and self._refusals[0].path == path else None

    def time(self) -> int | None:
        return next(self._times, None)

    def outcome(self, performed: Sequence[EffectTuple]) -> Awaited | None:
        place = sum(effect[0] == "awaited" for effect in performed)
        return self._outcomes[place] if place < len(self._outcomes) else None

    def immediate(self, performed: Sequence[EffectTuple]) -> Awaited | None:
        effects = self.turn.effects
        following = effects[len(performed)] if len(performed) < len(effects) else None
        return following if isinstance(following, Awaited) else None

    def incarnation(self, path: str) -> int | None:
        spawned = (each.ref for each in self._all(Spawn))
        return next((ref.incarnation for ref in spawned if ref.path == path), None)

    @cached_property
    def _promises(self) -> Iterator[int]:
        promises = [each.promise for each in self._all(Send)]
        return iter([promise.incarnation for promise in promises if promise is not None])

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


class ReplayedTurn(Recorder):
    """Records the effects of a replayed turn. This is the kernel's recorder during a replay."""

    def __init__(self) -> None:
        self.effects: list[EffectTuple] | None = None
        """The effects of the turn. None if no turn was run, or if it is a waiting coroutine."""
        self.failure: SerializedThrowable | None = None
        self.ended: list[tuple[int, list[EffectTuple], SerializedThrowable | None]] = []
        """The coroutines of earlier turns that have ended meanwhile, by sequence number."""
        self._recorded: Turn | None = None
        self._inputs: TurnInputs | None = None
        self._suspended: dict[int, TurnInputs] = {}

    def begin(self, recorded: Turn) -> None:
        self.effects = self.failure = self._inputs = None
        self._recorded = recorded

    def suspend(self) -> None:
        """Set aside the current turn, a waiting coroutine, until it continues. Other turns are replayed in between."""
        inputs = self._of_recorded()
        if inputs is not None:
            self._suspended[inputs.turn.sequence] = inputs

    def take_ended(self) -> list[tuple[int, list[EffectTuple], SerializedThrowable | None]]:
        """Return the coroutines of earlier turns that have ended since the last call, by sequence number."""
        ended, self.ended = self.ended, []
        return ended

    @property
    def inputs(self) -> TurnInputs | None:
        cell = RUNNING.cell
        if self._suspended and cell is not None and cell.sequence in self._suspended:
            return self._suspended[cell.sequence]
        return self._of_recorded()

    def of(self, sequence: int | None) -> TurnInputs | None:
        if sequence in self._suspended:
            return self._suspended[sequence]
        inputs = self._of_recorded()
        return inputs if inputs is not None and inputs.turn.sequence == sequence else None

    def _of_recorded(self) -> TurnInputs | None:
        # Most turns need no input.
        if self._inputs is None and self._recorded is not None:
            self._inputs = TurnInputs(self._recorded)
        return self._inputs

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[EffectTuple],
        failure: SerializedThrowable | None,
    ) -> None:
        if self._recorded is None or sequence == self._recorded.sequence:
            self.effects = effects
            self.failure = failure
        if self._suspended.pop(sequence, None) is not None:
            self.ended.append((sequence, effects, failure))
