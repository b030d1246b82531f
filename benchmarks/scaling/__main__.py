"""Measures how costs grow: `python -m benchmarks.scaling`.

  rows         of a batch, counted for few keys
  keys         of a batch, each used once, in a state without others
  parallelism  subtasks of the keyed operator, each with the same number of rows
  tasks        of a checkpoint without data: processor time
  files        that wait when the job starts, counted in windows

Each number is doubled five times from a small start, and the cost of a unit is printed for each step. Fixed costs of a
job make the first steps expensive, nonlinear costs the last steps. The output of each run is checked before a figure is
printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.arguments import positive_int, several
from benchmarks.checkpoints.worker import WorkerFailedError
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError
from benchmarks.scaling.curves import AXES, AxisName, Curve, as_json, as_table
from benchmarks.scaling.measuring import Options, measured
from benchmarks.scaling.picture import picture


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    curves: list[Curve] = []
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        how = Options(repeat=options.repeat, heap=options.heap, folder=Path(folder))
        try:
            for name in options.only:
                sizes = [AXES[name].start << step for step in range(options.doublings + 1)]
                curves.append(Curve(axis=name, seconds=measured(name, sizes, how, say)))
        except (EngineFailedError, WorkerFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    if options.picture is not None:
        options.picture.write_text(picture(curves) + "\n", encoding="utf-8")
    print(json.dumps(as_json(curves), indent=2) if options.json else as_table(curves))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(AxisName)
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the curves into this file")
    parser.add_argument(
        "--only", type=several(AxisName), default=tuple(AxisName), metavar="NAME,...", help=f"which of {names}"
    )
    parser.add_argument("--doublings", type=positive_int, default=5, metavar="N", help="of each (default 5)")
    parser.add_argument(
        "--repeat", type=positive_int, default=2, metavar="N", help="runs, of which the quickest counts"
    )
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
