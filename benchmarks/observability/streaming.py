"""Runs the stream of `benchmarks.streaming` in one process, observed in every other run.

`python -m benchmarks.observability.streaming ROWS FILES ROWS_PER_BATCH ROUNDS` prints the seconds of all runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import closing, nullcontext
from itertools import count
from pathlib import Path

from benchmarks.bids import prepared
from benchmarks.engine_process import answering
from benchmarks.engines.flykka_job import FlykkaJob
from benchmarks.observability.observers import watched
from benchmarks.rules import WARM_UP_ROUNDS


def main(rows: str, files: str, rows_per_batch: str, rounds: str) -> None:
    """Run the stream unobserved and observed; the order alternates with each round."""
    answers = answering()
    bids = prepared(int(rows), int(files))
    seconds: dict[str, list[float]] = {"alone": [], "watched": []}
    # Files that a job leaves are next to its checkpoints until all jobs have ended.
    with (
        tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder,
        closing(FlykkaJob(int(rows_per_batch), has_rest=True)) as job,
    ):
        places = (Path(folder, str(number)) for number in count())
        for _ in range(WARM_UP_ROUNDS):
            _seconds(job, bids, next(places), is_watched=False)
        for number in range(int(rounds)):
            for is_watched in (False, True) if number % 2 == 0 else (True, False):
                name = "watched" if is_watched else "alone"
                seconds[name].append(_seconds(job, bids, next(places), is_watched=is_watched))
                print(f"round {number + 1}, {name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    print(json.dumps(seconds), file=answers)


def _seconds(job: FlykkaJob, bids: Path, place: Path, *, is_watched: bool) -> float:
    address = job.rest_address
    with watched(address) if is_watched and address is not None else nullcontext():
        begun = time.perf_counter()
        job.run(bids, place / "output", place)
        return time.perf_counter() - begun


if __name__ == "__main__":
    main(*sys.argv[1:])
