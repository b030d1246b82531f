"""Runs the steps of each scaling axis, using the programs of the other benchmarks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.checkpoints.topologies import topology_named
from benchmarks.checkpoints.worker import measured_apart
from benchmarks.engine_process import EngineProcess
from benchmarks.keyed.inputs import write_every_key
from benchmarks.keyed.worker import Side, run
from benchmarks.keyed.works import WORKS, Work, WorkName, check
from benchmarks.latency.files import Feed
from benchmarks.scaling.curves import BATCHES, AxisName
from benchmarks.soak.output import Output

_KEYS_OF_ROWS = 1_000
_ROWS_PER_TASK = 20_000
_FILES_PER_S = 40.0
_CHECKPOINT_INTERVAL = "1s"

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The number of rounds, of which the fastest counts, the memory of each JVM, and the folder for files."""

    repeat: int
    heap: str
    folder: Path


def measured(axis: AxisName, sizes: Iterable[int], options: Options, say: Say) -> dict[int, float]:
    """Return the seconds for each size.

    Raises:
        EngineFailedError: a process has exited.
        WorkerFailedError: a process that runs checkpoints has exited.
        WrongResultError: an output is not the expected one.
    """
    seconds: dict[int, float] = {}
    for size, took in _SECONDS[axis](sizes, options):
        say(f"{axis} {size:,}: {took:.3f} s")
        seconds[size] = min(took, seconds.get(size, took))
    return seconds


def of_rows(rows: int) -> Work:
    return replace(WORKS[WorkName.RUNNING], rows_per_file=rows, keys=_KEYS_OF_ROWS, files=BATCHES)


def of_keys(keys: int) -> Work:
    return replace(of_rows(keys), write=write_every_key, keys=keys)


def _keyed(work_of: Callable[[int], Work]) -> Callable[[Iterable[int], Options], Iterable[tuple[int, float]]]:
    def steps(sizes: Iterable[int], options: Options) -> Iterable[tuple[int, float]]:
        with _engine(1, options.heap) as engine:
            engine.read()
            works = {size: work_of(size) for size in sizes}
            yield from _run_works(engine, works, options)

    return steps


def _parallelism(sizes: Iterable[int], options: Options) -> Iterable[tuple[int, float]]:
    """Use a process for each size, because the first job of a cluster determines its slots."""
    for size in sizes:
        with _engine(size, options.heap) as engine:
            engine.read()
            yield from _run_works(engine, {size: of_rows(size * _ROWS_PER_TASK)}, options)


def _engine(parallelism: int, heap: str) -> EngineProcess:
    return EngineProcess(Side.FLYKKA, "benchmarks.keyed.worker", (Side.FLYKKA, str(parallelism)), heap)


def _run_works(engine: EngineProcess, works: Mapping[int, Work], options: Options) -> Iterable[tuple[int, float]]:
    """Run each work several times, after a first warm-up run that does not count."""
    for number, (size, work) in enumerate(works.items()):
        source, place = options.folder / "input", options.folder / "run"
        work.write(source, work.files, work.rows_per_file, work.keys)
        if not number:
            run(engine, WorkName.RUNNING, source, place)
        for _ in range(options.repeat):
            took = run(engine, WorkName.RUNNING, source, place)
            check(Side.FLYKKA, place / "output", source, work)
            yield size, took
        shutil.rmtree(source)


def _tasks(sizes: Iterable[int], options: Options) -> Iterable[tuple[int, float]]:
    """Measure CPU time, because other load would dominate such a short wall-clock time."""
    for size in sizes:
        found = measured_apart(topology_named(str(size)), 1.0)
        yield size, median(times.cpu_ms for times in found.checkpoints) / 1_000


def _files(sizes: Iterable[int], options: Options) -> Iterable[tuple[int, float]]:
    """Run windows over files that all exist when the job starts; the first run does not count."""
    with EngineProcess(Side.FLYKKA, "benchmarks.soak.worker", (), options.heap) as engine:
        engine.wait_ready()
        for number, size in enumerate(sizes):
            for _ in range(options.repeat + (number == 0)):
                yield size, _read_files(engine, Feed(files=size, files_per_s=_FILES_PER_S), options.folder / "files")


def _read_files(engine: EngineProcess, feed: Feed, place: Path) -> float:
    feed.prepare(place)
    feed.put(place)
    source = feed.source(place, feed.first)
    (source / "_SUCCESS").touch()
    begun = time.perf_counter()
    engine.ask(json.dumps(["start", [str(source)], str(place), _CHECKPOINT_INTERVAL]))
    engine.ask(json.dumps(["finish"]))
    took = time.perf_counter() - begun
    output = Output(place / "output", feed)
    output.read()
    output.check_whole()
    shutil.rmtree(place)
    return took


_SECONDS: dict[AxisName, Callable[[Iterable[int], Options], Iterable[tuple[int, float]]]] = {
    AxisName.ROWS: _keyed(of_rows),
    AxisName.KEYS: _keyed(of_keys),
    AxisName.PARALLELISM: _parallelism,
    AxisName.TASKS: _tasks,
    AxisName.FILES: _files,
}
