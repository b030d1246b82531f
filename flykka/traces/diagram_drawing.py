"""Draws the part of a trace that is to be seen."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.errors import TraceSelectionError
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.diagram import Diagram, Line, View, diagram, lines_of
from flykka.traces.origin import begin_of, origin, shortcomings
from flykka.traces.selection import KINDS

MERMAID_LINES = 300
"""More of them no renderer takes."""
HTML_LINES = 50_000
"""So many a browser has no trouble with; the page has some 20 MB then."""


def drawn(trace: TraceReader, view: View, *, most: int) -> Diagram:
    """A diagram of at most `most` lines.

    Raises:
        TraceSelectionError: there is nothing to be seen, or more than that.
    """
    lines = lines_of(exactly_in_order(trace), view)
    found = diagram(origin(trace), tuple(shortcomings(trace)), begin_of(trace), lines, most)
    if found.hidden:
        names = ", ".join(f"'{name}'" for name in KINDS)
        raise TraceSelectionError(
            f"{trace.path}: {len(found.lines) + found.hidden:,} turns are too many for this diagram, which takes "
            f"{most:,}: draw fewer with --from and --to, --actors, --checkpoint or --collapse ({names} or a TYPE)"
        )
    if not found.lines:
        raise TraceSelectionError(f"{trace.path}: no turn is as asked for: there is nothing to draw")
    return found


def streamed(trace: TraceReader, view: View) -> Iterator[Line]:
    """The lines of any number of turns, one by one."""
    return lines_of(exactly_in_order(trace), view)
