"""Which subtasks read which, in words that stay short however many there are."""

from __future__ import annotations

from flykka.plan.program_plan import Wiring

_SHOWN = 8


def told(wiring: Wiring) -> str:
    """`each reads all`, `1 reads 1-3, 2 reads 4-6`."""
    if not wiring.reads:
        return "each subtask reads all"
    if all(producers == (consumer,) for consumer, producers in enumerate(wiring.reads)):
        return "each subtask reads the one of its number"
    said = [f"{consumer} reads {_span(producers)}" for consumer, producers in enumerate(wiring.reads[:_SHOWN], 1)]
    return ", ".join(said) + (", ..." if len(wiring.reads) > _SHOWN else "")


def _span(producers: tuple[int, ...]) -> str:
    first, last = producers[0] + 1, producers[-1] + 1
    return str(first) if first == last else f"{first}-{last}"
