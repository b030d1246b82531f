"""Measures whether a long-running job grows: `python -m benchmarks.soak`.

Forty files of 1,000 rows a second are counted in windows of a second, with a checkpoint every second. Every ten seconds
the following is recorded: memory, open files and threads of the driver and of its JVM, blocks in Spark, checkpoint
files, and the time of a batch; sometimes, after a garbage collection, also live objects. The latency is the time from
the arrival of a file until readers see the windows with its rows. At the end the figures of the fourth minute are
compared with those of the last minute. Input is deleted when its rows are committed, and output when it has been
counted. No figure is printed unless every file was counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.arguments import positive_float
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError, EngineProcess
from benchmarks.latency.files import Feed
from benchmarks.memory import resident_bytes
from benchmarks.processes import open_files, threads
from benchmarks.soak.figures import Recorded, Schedule, as_json, as_table
from benchmarks.soak.input import Arriving
from benchmarks.soak.output import Output

FILES_PER_S = 40.0
CHECKPOINT_INTERVAL = "1s"

_COLLECT_S = 300.0
"""Seconds between garbage collections, which are outside the compared times, because they take time from the job."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    schedule = Schedule.of(60 * options.minutes)
    feed = Feed(files=round(options.files_per_s * schedule.seconds), files_per_s=options.files_per_s)
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        try:
            with EngineProcess("flykka", "benchmarks.soak.worker", (), options.heap) as engine:
                engine.wait_ready()
                recorded = Soak(engine, feed, Path(folder), keeps_input=options.keep_input).run(schedule, say)
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    found = as_json(recorded, feed.files)
    print(json.dumps(found, indent=2) if options.json else as_table(found))
    return 0


class Soak:
    def __init__(self, engine: EngineProcess, feed: Feed, place: Path, *, keeps_input: bool) -> None:
        self._engine, self._feed, self._place = engine, feed, place
        self._source = feed.source(place, feed.first)
        self._source.mkdir()
        self._output = Output(place / "output", feed)
        self._next_to_delete: int | None = None if keeps_input else feed.first
        self._seen = (0.0, 0.0)

    def run(self, schedule: Schedule, say: Callable[[str], object]) -> Recorded:
        """Run to the end of the input.

        Raises:
            EngineFailedError: the job has failed, or does not end.
            WrongResultError: a file was not counted, or was counted twice.
        """
        recorded = Recorded(schedule)
        self._ask("start", [str(self._source)], str(self._place), CHECKPOINT_INTERVAL)
        with Arriving(self._feed, self._place) as arriving:
            second, collect_s = schedule.sample_s, schedule.settled_s
            while second < schedule.seconds and arriving.wait_until(second):
                collects = second >= collect_s
                if collects:
                    later = min(collect_s + _COLLECT_S, schedule.last_s)
                    collect_s = later if later > collect_s else schedule.seconds
                sample = self._sample(collects=collects)
                recorded.note(second, sample)
                say(f"{second:,.0f} s: {_line(sample)}")
                self._output.read()
                self._delete_input(arriving)
                second += schedule.sample_s
            arriving.wait_all()
            (self._source / "_SUCCESS").touch()
            self._ask("finish")
        self._output.read()
        self._output.check_whole()
        for number, at in arriving.arrivals.items():
            committed = self._output.committed_at(number)
            assert committed is not None, "every file was counted"
            recorded.note(at - arriving.begun, {"latency_ms": 1000 * (committed - at)})
        return recorded

    def _sample(self, *, collects: bool) -> dict[str, float]:
        sample: dict[str, float] = self._ask("look", collects)
        batches, busy_ms = sample.pop("batches"), sample.pop("busy_ms")
        before, busy_before = self._seen
        if batches > before:
            sample["batch_ms"] = (busy_ms - busy_before) / (batches - before)
        self._seen = batches, busy_ms
        for name, pid in (("driver", self._engine.pid), ("jvm", int(sample.pop("jvm_pid")))):
            sample[f"{name}_resident_bytes"] = resident_bytes([pid])
            sample[f"{name}_open_files"] = open_files(pid)
            sample[f"{name}_threads"] = threads(pid)
        # `os.walk` tolerates folders that are deleted meanwhile.
        sample["checkpoint_files"] = sum(len(files) for *_, files in os.walk(self._place / "checkpoints"))
        return sample

    def _delete_input(self, arriving: Arriving) -> None:
        while (number := self._next_to_delete) in arriving.arrivals and self._output.committed_at(number) is not None:
            self._feed.file(self._place, number).unlink()
            self._next_to_delete = number + 1

    def _ask(self, *request: object) -> dict[str, float]:
        answer: dict[str, float] = self._engine.ask(json.dumps(request))
        return answer


def _line(sample: dict[str, float]) -> str:
    mib = ("driver_resident_bytes", "jvm_resident_bytes", "live_heap_bytes")
    told = {name: figure / 2**20 if name in mib else figure for name, figure in sample.items()}
    return ", ".join(f"{name.removesuffix('_bytes')} {figure:,.0f}" for name, figure in told.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--minutes", type=positive_float, default=30.0, metavar="N", help="how long (default 30)")
    parser.add_argument("--files-per-s", type=positive_float, default=FILES_PER_S, metavar="N", help="default 40")
    parser.add_argument("--keep-input", action="store_true", help="leave files in the folder that were read")
    parser.add_argument("--heap", default="1g", metavar="SIZE", help="memory of the JVM (default 1g)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
