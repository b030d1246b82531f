"""Measures the speed of checkpoints without data: `python -m benchmarks.checkpoints`.

Actors, threads, storage and flight recorder are those of a real cluster; only the bridges are replaced by stand-ins
that reply at once. The time is from the trigger until every Task is notified that the checkpoint is complete.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.arguments import positive_float
from benchmarks.checkpoints.results import as_json, as_table
from benchmarks.checkpoints.topologies import TOPOLOGIES, Topology
from benchmarks.checkpoints.worker import WorkerFailedError, measured_apart


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        found = as_json({topology: measured_apart(topology, options.scale) for topology in options.only})
    except WorkerFailedError as failed:
        print(failed, file=sys.stderr)
        return 1
    print(json.dumps(found, indent=2) if options.json else as_table(found, options.only))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checkpoints",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(topology.name for topology in TOPOLOGIES)
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--only", type=_topologies, default=TOPOLOGIES, metavar="NAME,...", help=f"which of {names}")
    parser.add_argument(
        "--scale", type=positive_float, default=1.0, metavar="X", help="so many times the checkpoints (default 1)"
    )
    return parser


def _topologies(text: str) -> tuple[Topology, ...]:
    known = {topology.name: topology for topology in TOPOLOGIES}
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no topology {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


if __name__ == "__main__":
    sys.exit(main())
