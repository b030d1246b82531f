"""`flykka shrink`: reduces a failing simulation to a minimal one, and prints it."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.cli.arguments import at_least_one, describe
from flykka.cli.exit_codes import DIFFERENT, OK, UNREADABLE, broken, fail, print_no_more
from flykka.cli.simulate import add_faults
from flykka.cli.trace.trace_file import output_problem, reason
from flykka.runtime.errors import TraceError
from flykka.simulation.operators import Source
from flykka.simulation.scenario import Scenario
from flykka.simulation.scenario_form import PythonSource
from flykka.simulation.settings import SimulationSettings

if TYPE_CHECKING:
    from flykka.simulation.shrink import Shrunk

_DESCRIPTION = """\
Reduce a failing simulation: jobs, faults, vertices, rows and settings are removed one
after the other, as long as the same invariant is violated. The result is printed, and
can be written as a test that needs only flykka. Ctrl-C ends the search with the best
result so far.
"""

_EPILOG = """\
examples:
  flykka shrink 4711                                    the failure of `flykka simulate --seed 4711`
  flykka shrink 4711 --faults crash,storage             ... with --faults crash,storage
  flykka shrink failed/seed-4711.trace                  the failure in a trace
  flykka shrink 4711 --emit-test tests/histories/       and write a test of it

exit codes:
  0  the simulation does not fail: there is nothing to reduce
  1  it fails; the reduced simulation is printed
  2  the command line is wrong, the file is not a trace of a simulation, or the test cannot be written
  3  an internal error of this command
"""
DEFAULT_RUNS = 600


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG, allow_abbrev=False)
    parser.add_argument("what", metavar="SEED|FILE", help="a seed, or the trace of a simulation")
    add_faults(parser, "the faults of the simulation")
    parser.add_argument("--emit-test", type=Path, metavar="DIR", help="write a test into this folder")
    parser.add_argument(
        "--runs", type=at_least_one, default=DEFAULT_RUNS, metavar="N", help=f"at most N runs (default: {DEFAULT_RUNS})"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    code = OK
    try:
        code = _shrink(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more()
    except (TraceError, OSError) as unusable:
        return fail(f"flykka shrink: {_reason(arguments, unusable)}", UNREADABLE)
    except Exception:  # noqa: BLE001 - the exit code tells it from a simulation that fails.
        return broken("flykka shrink")
    return code


def _shrink(arguments: argparse.Namespace) -> int:
    # Imported here because the import takes a second, which `--help` should not wait for.
    from flykka.simulation.campaign import quietly
    from flykka.simulation.shrink import shrink
    from flykka.simulation.shrink_test import write_test

    folder = arguments.emit_test
    if folder is not None and folder.exists() and not folder.is_dir():
        # This is checked before the search, which may take minutes.
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    origin = _scenario(arguments)
    with quietly():
        shrunk = shrink(origin, runs=arguments.runs, on_progress=_show_progress)
    _show_progress(None, 0)
    if shrunk is None:
        print(f"seed {origin.seed}: no failure, so there is nothing to reduce")
        return OK
    _print_result(origin, shrunk)
    if folder is not None:
        path = write_test(folder, origin, shrunk)
        print(f"\nwritten: {path}\nrun it:  python -m pytest {path}")
    return DIFFERENT


def _scenario(arguments: argparse.Namespace) -> Scenario:
    from flykka.simulation.scenario_drawing import draw_scenario
    from flykka.simulation.scenario_form import scenario_of

    what: str = arguments.what
    if what.isdecimal():
        return draw_scenario(int(what), SimulationSettings(faults=arguments.faults))
    return scenario_of(what)


def _show_progress(scenario: Scenario | None, runs: int) -> None:
    if sys.stderr.isatty():
        text = "" if scenario is None else f"{runs} runs, now {_size(scenario)}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _print_result(origin: Scenario, shrunk: Shrunk) -> None:
    more = "the limit of --runs was reached: more may be removable"
    end = "nothing more can be removed" if shrunk.is_smallest else more
    print(f"seed {origin.seed}: {shrunk.violation}\n")
    print(PythonSource().expression(shrunk.scenario))
    print(f"\nbefore: {_size(origin)}\nafter:  {_size(shrunk.scenario)}\n{shrunk.runs} runs; {end}")


def _size(scenario: Scenario) -> str:
    behaviours = scenario.topology.program.behaviours.values()
    figures = {
        "job": len(scenario.jobs),
        "fault": sum(len(plan.faults) for plan in scenario.jobs),
        "vertex": len(scenario.topology.vertices),
        "subtask": sum(vertex.parallelism for vertex in scenario.topology.vertices),
        "row": sum(behaviour.rows for behaviour in behaviours if isinstance(behaviour, Source)),
        "TaskManager": scenario.task_managers,
    }
    return ", ".join(f"{count} {_plural(what) if count != 1 else what}" for what, count in figures.items())


def _plural(what: str) -> str:
    return "vertices" if what == "vertex" else f"{what}s"


def _reason(arguments: argparse.Namespace, unusable: Exception) -> str:
    what: str = arguments.what
    match unusable:
        case FileNotFoundError() if unusable.filename == what:
            return f"{what} is not a seed, which is a whole number, and there is no such file"
        case OSError(filename=str(name)) if name != what:
            return output_problem(name, unusable)
        case _:
            return reason(what, unusable)
