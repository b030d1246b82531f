"""The causes of a turn: the turns that led to it, each with the responsible effect."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.runtime.signals import Create, DeathWatchNotification, PipeFailed, ReceiveTimeout, Stop, Unwatch, Watch
from flykka.runtime.trace import effects
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.records import Turn

if TYPE_CHECKING:
    from flykka.runtime.trace.effects import Effect
    from flykka.runtime.trace.file.reader import TraceReader

_OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class Cause:
    """A turn and its effect that led to the next turn. The effect is None if, for example, the end of the actor led to
    it.
    """

    turn: Turn
    effect: Effect | None


def causes_of(trace: TraceReader, turn: Turn) -> list[Cause]:
    """Return the chain of causes of `turn`, nearest first.

    Reads the trace three times, retaining only two numbers per turn.
    """
    numbers, causes = array("q"), array("q")
    for each in exactly_in_order(trace):
        if each.sequence >= turn.sequence:
            break
        if isinstance(each, Turn):
            numbers.append(each.sequence)
            causes.append(_OUTSIDE if each.cause is None else each.cause)
    chain: list[int] = []
    cause = _OUTSIDE if turn.cause is None else turn.cause
    while cause != _OUTSIDE:
        place = bisect_left(numbers, cause)
        if place == len(numbers) or numbers[place] != cause:
            break  # The cause was not retained, or is not a turn.
        chain.append(cause)
        cause = causes[place]
    sequences = set(chain)
    turns = {each.sequence: each for each in trace if each.sequence in sequences}
    explained: list[Cause] = []
    effect_of = turn
    for number in chain:
        explained.append(Cause(turns[number], _causing_effect(turns[number], effect_of)))
        effect_of = turns[number]
    return explained


def _causing_effect(cause: Turn, turn: Turn) -> Effect | None:
    leading = (effect for effect in cause.effects if _leads_to(effect, turn))
    # The outcome of blocking work is not an effect. A message that the turn has sent takes precedence.
    return next(leading, None) or next((effect for effect in cause.effects if _may_lead_to(effect, turn)), None)


def _leads_to(effect: Effect, turn: Turn) -> bool:
    message, recipient = turn.message, turn.recipient
    match effect:
        case effects.Send() | effects.Reply():
            return effect.target == recipient and effect.message == message
        case effects.StartTimer():
            return turn.kind == "timer" and effect.message == message
        case effects.Spawn(ref=ref):
            return isinstance(message, Create) and ref == recipient
        case effects.SetReceiveTimeout():
            return turn.kind == "timer" and isinstance(message, ReceiveTimeout)
        case effects.Watch(ref=ref):
            return isinstance(message, Watch) and ref == recipient
        case effects.Unwatch(ref=ref):
            return isinstance(message, Unwatch) and ref == recipient
        case effects.Stop(ref=ref):
            return isinstance(message, Stop | DeathWatchNotification) and ref in (recipient, turn.sender)
        case _:
            return False


def _may_lead_to(effect: Effect, turn: Turn) -> bool:
    is_outcome = turn.sender == turn.recipient or isinstance(turn.message, PipeFailed)
    return isinstance(effect, effects.Pipe) and turn.kind == "message" and is_outcome
