"""Runs one topology in this process and prints the times: `python -m benchmarks.checkpoints.worker NAME SCALE`.

NAME is one of the measured topologies, or a number of tasks.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import asdict
from functools import partial

from benchmarks.checkpoints.measuring import Measured, Times, measure
from benchmarks.checkpoints.topologies import Topology, topology_named


class WorkerFailedError(Exception):
    """A worker has exited without a result."""


def measured_apart(topology: Topology, scale: float) -> Measured:
    """Measure a topology in a separate process, so that the garbage of other topologies does not affect it.

    Raises:
        WorkerFailedError: the process has failed, and printed why.
    """
    command = [sys.executable, "-m", "benchmarks.checkpoints.worker", topology.name, str(scale)]
    worker = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if worker.returncode:
        raise WorkerFailedError(f"{topology.name}: the worker has ended with {worker.returncode}")
    return from_json(worker.stdout)


def to_json(measured: Measured) -> str:
    return json.dumps(asdict(measured))


def from_json(printed: str) -> Measured:
    fields = json.loads(printed)
    return Measured(**{**fields, "checkpoints": [Times(**times) for times in fields["checkpoints"]]})


def main(name: str, scale: str) -> int:
    # The watchdog would report turns that start or end thousands of tasks.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    measured = topology_named(name).scaled(float(scale))
    try:
        print(to_json(measure(measured, partial(print, file=sys.stderr, flush=True))))
    except TimeoutError as late:
        print(f"{name}: {late}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
