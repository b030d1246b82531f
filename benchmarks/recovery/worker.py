"""The process in which one side is timed: `python -m benchmarks.recovery.worker SIDE FOLDER`.

It prints `ready` when all arrived rows are in a checkpoint. Each line of its input then names a file that arrives just
before the failure; the reply is the recovery time in seconds.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.engine_process import answering
from benchmarks.engines import EngineName
from benchmarks.recovery import totals
from benchmarks.recovery.flykka_totals import FlykkaTotals
from benchmarks.recovery.streaming_totals import StreamingTotals


def main(name: str, folder: str) -> None:
    answers = answering()
    place = Path(folder)
    (place / "input").mkdir(parents=True)
    totals.write(place / "input", 0)
    side = FlykkaTotals if EngineName(name) is EngineName.FLYKKA else StreamingTotals
    with closing(side(place)) as query:
        query.settle()
        print("ready", file=answers)
        for line in sys.stdin:
            totals.write(place / "input", json.loads(line))
            seconds = query.recover()
            query.settle()
            print(json.dumps(seconds), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
