"""The scenario that the trace of a simulation carries: the client is told of it before anything else happens."""

from __future__ import annotations

import os
from itertools import islice

from flykka.messages.tasks.simulation import SimulationBegun
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.file.reader import TraceReader
from flykka.simulation.scenario import Scenario
from flykka.simulation.scenario_form import ScenarioError, from_json

_LOOKED_THROUGH = 1_000
"""It is among so many of the first turns."""


def scenario_of(path: str | os.PathLike[str]) -> Scenario:
    """The scenario that was simulated in the trace.

    Raises:
        TraceError: it is no trace, or not one of a simulation, or the scenario is of another version.
        OSError: it cannot be read.
    """
    trace = TraceReader.open(path)
    for turn in islice(trace, _LOOKED_THROUGH):
        if isinstance(turn.message, SimulationBegun):
            try:
                return from_json(turn.message.scenario)
            except ScenarioError as misfit:
                raise TraceError(f"{os.fspath(path)}: {misfit}") from misfit
    damage = trace.truncated
    if damage is not None:
        raise TraceError(
            f"{os.fspath(path)} has no scenario in what can be read of it, up to byte {damage.offset}: "
            f"{damage.reason}; if it is that of a simulation, `flykka simulate --seed N --record DIR` writes it again"
        )
    raise TraceError(
        f"{os.fspath(path)} is no trace of a simulation, of which alone a scenario can be made smaller: "
        "`flykka simulate --record DIR` writes one for each seed that fails"
    )
