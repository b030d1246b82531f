"""Times recoveries and restarts alternately, so that other load on the machine affects both, and then takeovers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engine_process import EngineProcess
from benchmarks.engines import EngineName
from benchmarks.recovery.takeover import taken_over_in

WARM_UP_TURNS = 3
"""The number of turns that do not count, while the JVM compiles."""

_SIDES = (EngineName.FLYKKA, EngineName.STRUCTURED_STREAMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    recoveries: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)


def measured(folder: Path, turns: int, takeovers: int, heap: str, say: Callable[[str], object]) -> Times:
    """Measure `turns` turns of both sides, and `takeovers` takeovers.

    Raises:
        EngineFailedError: a process exited without a reply.
    """
    times = Times()
    arguments = {name: (name, str(folder / name)) for name in _SIDES}
    with (
        EngineProcess("flykka", "benchmarks.recovery.worker", arguments[EngineName.FLYKKA], heap) as flykka,
        EngineProcess(
            "Structured Streaming", "benchmarks.recovery.worker", arguments[EngineName.STRUCTURED_STREAMING], heap
        ) as streaming,
    ):
        flykka.wait_ready()
        streaming.wait_ready()
        for turn in range(WARM_UP_TURNS + turns):
            # File 0 exists from the start.
            arriving = json.dumps(turn + 1)
            recovery, restart = flykka.ask(arriving), streaming.ask(arriving)
            say(f"turn {turn + 1}: recovery {recovery:.2f} s, restart {restart:.2f} s")
            if turn >= WARM_UP_TURNS:
                times.recoveries.append(recovery)
                times.restarts.append(restart)
    for number in range(takeovers):
        seconds = taken_over_in(folder / f"takeover-{number}", heap)
        say(f"takeover {number + 1}: {seconds:.2f} s")
        times.takeovers.append(seconds)
    return times
