"""What is found out about a divergence only when there is one: the chain of causes, and the line of code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.messages.message import Message
from flykka.runtime.trace.replay.source import source_of
from flykka.runtime.trace.text import unwrapped

if TYPE_CHECKING:
    from flykka.runtime.cell import Cell
    from flykka.runtime.trace.reader import Trace
    from flykka.runtime.trace.records import Turn
    from flykka.runtime.trace.replay.divergence import Divergence

_CAUSES = 6


def explain(divergence: Divergence, trace: Trace, cell: Cell) -> Divergence:
    """The divergence, with everything that helps to understand it."""
    said = unwrapped(divergence.turn.message)
    source = source_of(cell, said if isinstance(said, Message) else None)
    return replace(divergence, causes=_causes(trace, divergence.turn), source=source)


def _causes(trace: Trace, turn: Turn) -> tuple[Turn, ...]:
    """The turns that led to `turn`, the last one first."""
    links = {each.sequence: each.cause for each in trace if each.sequence < turn.sequence}
    wanted: list[int] = []
    cause = turn.cause
    while cause is not None and cause in links and len(wanted) < _CAUSES:
        wanted.append(cause)
        cause = links[cause]
    found = {each.sequence: each for each in trace if each.sequence in wanted}
    return tuple(found[each] for each in wanted)
