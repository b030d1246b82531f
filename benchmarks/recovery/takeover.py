"""A driver that is killed, and a standby: measures the time until the standby continues the work.

    python -m benchmarks.recovery.takeover FOLDER

runs such a driver. It prints `true` when all rows are in a checkpoint, and a number of seconds, on the clock that all
processes of a machine share, when its keyed vertex has finished its first batch.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from benchmarks.engine_process import EngineProcess, answering
from benchmarks.recovery import totals
from benchmarks.recovery.flykka_totals import FlykkaTotals

_WAITING_S = 25.0
"""Seconds in which the second driver starts, warms up its Spark and waits; it does not report its progress."""


def taken_over_in(folder: Path, heap: str) -> float:
    """Return the seconds from the kill of the leading driver to the first batch that the standby has finished.

    Raises:
        EngineFailedError: one of the drivers has exited.
    """
    (folder / "input").mkdir(parents=True)
    totals.write(folder / "input", 0)
    with _driver(folder, heap) as leader:
        assert leader.read() is True
        with _driver(folder, heap) as waiting:
            time.sleep(_WAITING_S)
            totals.write(folder / "input", 1)
            begun = time.monotonic()
            leader.kill()
            first_batch_at: float = waiting.read()
            waiting.kill()
    return first_batch_at - begun


def _driver(folder: Path, heap: str) -> EngineProcess:
    return EngineProcess("a driver", "benchmarks.recovery.takeover", (str(folder),), heap)


def main(folder: str) -> None:
    answers = answering()
    place = Path(folder)
    was_first = not (place / "checkpoints").exists()
    query = FlykkaTotals(place, high_availability=place / "high-availability")
    if was_first:
        query.settle()
        print(json.dumps(True), file=answers)
    else:
        print(json.dumps(query.batches.wait_for_another(frozenset())), file=answers)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
