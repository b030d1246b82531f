"""The process in which one engine is measured: `python -m benchmarks.nexmark.worker ENGINE BATCH FILE PARALLELISM`.

The numbers are the rows of a batch and of a file, and the parallelism of flykka's operators. The process prints
`ready`, then handles the request on each line of its input. The reply to a `run` of a query contains its seconds, or
the reason why the engine cannot run it; the reply to a `compare` contains the differences. The process exits at the end
of its input.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks.engine_process import EngineProcess, answering
from benchmarks.engines import EngineName
from benchmarks.nexmark.sides import NotRunnableError, Side


def run(engine: EngineProcess, query: str, source: Path, place: Path) -> float:
    """Run a query in such a process, into `place`/output, and return the seconds. Deletes `place` first.

    Raises:
        NotRunnableError: the engine cannot run the query.
        EngineFailedError: the process exited without a reply.
    """
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    seconds, why_not = engine.ask(json.dumps(["run", query, str(source), str(place)]))
    if seconds is None:
        raise NotRunnableError(why_not)
    return float(seconds)


def compare(batch: EngineProcess, query: str, found: Path, expected: Path, events: int, *, closed: bool) -> str | None:
    """Compare two outputs in the batch's process; return how they differ, or None. Raises the errors of `run`."""
    request = ["compare", query, str(found / "output"), str(expected / "output"), events, closed]
    differences: str | None = batch.ask(json.dumps(request))
    return differences


def main(name: str, rows_per_batch: int, rows_per_file: int, parallelism: int) -> None:
    answers = answering()
    # Spark's Python workers must use this Python interpreter, and find the functions of these modules.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join((os.getcwd(), os.environ.get("PYTHONPATH", "")))
    with closing(_started(EngineName(name), rows_per_batch, rows_per_file, parallelism)) as side:
        print(json.dumps("ready"), file=answers)
        for line in sys.stdin:
            print(json.dumps(_answer(side, json.loads(line))), file=answers)


def _answer(side: Side, request: list[object]) -> object:
    from benchmarks.nexmark.spark_batch_side import SparkBatchSide, differences

    match request:
        case ["run", str(query), str(source), str(place)]:
            begun = time.perf_counter()
            try:
                side.run(query, Path(source), Path(place))
            except NotRunnableError as why_not:
                return None, str(why_not)
            return time.perf_counter() - begun, None
        case ["compare", str(query), str(found), str(expected), int(events), bool(closed)]:
            assert isinstance(side, SparkBatchSide)
            return differences(side.session, query, Path(found), Path(expected), events, closed=closed)
        case _:
            raise AssertionError(f"nobody asks {request}")


def _started(name: EngineName, rows_per_batch: int, rows_per_file: int, parallelism: int) -> Side:
    """Start the engine with this name, importing only the modules that it needs."""
    match name:
        case EngineName.SPARK_BATCH:
            from benchmarks.nexmark.spark_batch_side import SparkBatchSide

            return SparkBatchSide()
        case EngineName.STRUCTURED_STREAMING:
            from benchmarks.nexmark.structured_streaming_side import StructuredStreamingSide

            return StructuredStreamingSide(files_per_batch=rows_per_batch // rows_per_file)
        case EngineName.FLYKKA:
            from benchmarks.nexmark.flykka_side import FlykkaSide

            return FlykkaSide(rows_per_batch, parallelism)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
