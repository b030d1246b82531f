"""The process in which one engine is measured: `python -m benchmarks.keyed.worker ENGINE PARALLELISM`.

It prints `ready`, then runs the work in each line of its input and replies with the seconds. It exits at the end of its
input.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine_process import EngineProcess, answering
from benchmarks.keyed.works import WorkName

if TYPE_CHECKING:
    from benchmarks.keyed.flykka_side import FlykkaSide
    from benchmarks.keyed.structured_streaming_side import StructuredStreamingSide


class Side(StrEnum):
    FLYKKA = "flykka"
    STRUCTURED_STREAMING = "structured_streaming"


def run(engine: EngineProcess, name: WorkName, source: Path, place: Path) -> float:
    """Run a work in such a process, into `place`/output, and return the seconds. Deletes `place` first.

    Raises `EngineFailedError` if the process exits instead.
    """
    if place.exists():
        shutil.rmtree(place)
    place.mkdir()
    seconds: float = engine.ask(json.dumps([name, str(source), str(place)]))
    return seconds


def main(side: str, parallelism: str) -> None:
    answers = answering()
    # Spark's Python workers must use this Python interpreter, and find the functions of these modules.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join((os.getcwd(), os.environ.get("PYTHONPATH", "")))
    with closing(_started(Side(side), int(parallelism))) as engine:
        print(json.dumps("ready"), file=answers)
        for line in sys.stdin:
            work, source, place = json.loads(line)
            begun = time.perf_counter()
            engine.run(WorkName(work), Path(source), Path(place))
            print(json.dumps(time.perf_counter() - begun), file=answers)


def _started(side: Side, parallelism: int) -> FlykkaSide | StructuredStreamingSide:
    if side is Side.FLYKKA:
        from benchmarks.keyed.flykka_side import FlykkaSide

        return FlykkaSide(parallelism)
    from benchmarks.keyed.structured_streaming_side import StructuredStreamingSide

    return StructuredStreamingSide(parallelism)


if __name__ == "__main__":
    main(*sys.argv[1:])
