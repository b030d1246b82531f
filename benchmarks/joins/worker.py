"""The process in which one engine is measured: `python -m benchmarks.joins.worker ENGINE PARALLELISM`.

It prints `ready`, then runs the join for each line of its input and replies with the seconds. It exits at the end of
its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine_process import answering
from benchmarks.keyed.worker import Side

if TYPE_CHECKING:
    from benchmarks.joins.flykka_side import FlykkaSide
    from benchmarks.joins.structured_streaming_side import StructuredStreamingSide


def main(side: str, parallelism: str) -> None:
    answers = answering()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with closing(_started(Side(side), int(parallelism))) as engine:
        print(json.dumps("ready"), file=answers)
        for line in sys.stdin:
            source, place = json.loads(line)
            begun = time.perf_counter()
            engine.run(Path(source), Path(place))
            print(json.dumps(time.perf_counter() - begun), file=answers)


def _started(side: Side, parallelism: int) -> FlykkaSide | StructuredStreamingSide:
    if side is Side.FLYKKA:
        from benchmarks.joins.flykka_side import FlykkaSide

        return FlykkaSide(parallelism)
    from benchmarks.joins.structured_streaming_side import StructuredStreamingSide

    return StructuredStreamingSide(parallelism)


if __name__ == "__main__":
    main(*sys.argv[1:])
