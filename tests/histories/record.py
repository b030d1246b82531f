"""Records the golden traces again: `python -m tests.histories.record [NAME ...]`, by default all of them.

A deliberate change of behaviour is committed together with the new traces and a line in the CHANGELOG.
`flights-with-a-kill` is the example on real threads, and needs Java and the libraries of the examples. The other traces
need neither.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.simulation.scenario import Fault
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.simulation import run
from tests.histories.runs import RUNS, SEED

FOLDER = Path(__file__).parent
EXAMPLE = FOLDER.parents[1] / "examples" / "flights.py"
OF_THE_EXAMPLE = "flights-with-a-kill"
SIMULATED_SEEDS = {"simulated": 2, "timers": 634}
"""Seeds of the simulated runs: `simulated` has two sources, a union and a window; `timers` has keyed functions whose
timers of both kinds are restored from a checkpoint.
"""

FAULTS_WRITTEN_OUT = {"timers": (Fault(kind=FaultKind.STAGE, at_ms=2_500, seed=1),)}
"""Explicit faults of some runs. They replace the faults that the seed draws, because drawn faults change whenever a
kind of fault is added.
"""

NAMES = (*RUNS, OF_THE_EXAMPLE, *SIMULATED_SEEDS)


def record_run(name: str, path: Path) -> None:
    """Record a run to `path`. Raises the run's error if it does not end as intended."""
    if name == OF_THE_EXAMPLE:
        subprocess.run([sys.executable, str(EXAMPLE), "--record", str(path)], check=True)
    elif name in SIMULATED_SEEDS:
        settings = SimulationSettings(trace_path=path)
        scenario = draw_scenario(SIMULATED_SEEDS[name], settings)
        if name in FAULTS_WRITTEN_OUT:
            scenario = replace(scenario, jobs=(replace(scenario.jobs[0], faults=FAULTS_WRITTEN_OUT[name]),))
        assert run(scenario, settings).violations == ()
    else:
        RUNS[name](TraceRecorder(path), SEED)


def main() -> None:
    """Record the named runs. A run that does not end as intended leaves the old trace in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no run {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    for name in names or NAMES:
        golden, unfinished = FOLDER / f"{name}.trace", FOLDER / f"{name}.trace.inprogress"
        try:
            record_run(name, unfinished)
            unfinished.replace(golden)
        finally:
            unfinished.unlink(missing_ok=True)
        print(f"{name}: {golden.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
