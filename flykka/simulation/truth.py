"""Compares the output with the truth, which is computed from the rows of the sources alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flykka.simulation.operators import Join
from flykka.simulation.topology import Topology
from flykka.simulation.world import World


class Truth:
    """The output of a job beside what it is to be."""

    def __init__(self, topology: Topology, world: World, *, is_exact: bool, is_lossy: bool = False) -> None:
        """`is_exact`: no row may count twice; `is_lossy`: some may be missing."""
        self._expected = topology.truth()
        self._world = world
        self._is_lossy = is_lossy
        self._is_exact = is_exact
        # Rows whose partners are lost come out alone, of a join that lets them.
        behaviours = topology.program.behaviours.values()
        has_outer_join = any(isinstance(behaviour, Join) and behaviour.outer for behaviour in behaviours)
        self._may_be_alone = is_lossy and has_outer_join
        # Who reads a row again may have told the time behind it, and nobody waits for a source that counts as idle.
        self._is_never_late = (
            is_exact and not is_lossy and all(vertex.idle_timeout_ms is None for vertex in topology.vertices)
        )

    def wrong(self, *, is_complete: bool) -> Iterator[str]:
        """Yield what is wrong with each sink. Of a job that has read all, every row is to be there."""
        for sink, expected in self._expected.items():
            seen = Counter(part for row in self._world.published(sink) for part in row.parts)
            missing, extra = expected - seen, seen - expected
            if is_complete and missing and not self._is_lossy:
                yield f"{sink} lacks {missing.total()} of {expected.total()} rows, such as {_first(missing)}"
            if not self._is_exact:
                extra = Counter({part: count for part, count in extra.items() if part not in expected})
            if self._may_be_alone:
                extra = Counter({part: count for part, count in extra.items() if part in expected})
            if extra:
                yield f"{sink} has {extra.total()} rows too many, such as {_first(extra)}"
        if self._world.late_rows and self._is_never_late:
            yield f"{self._world.late_rows} rows came late, of sources that are as much out of order as they say"


def _first(rows: Counter[tuple[int, int]]) -> str:
    number, value = min(rows)
    return f"row {number} with value {value}"
