"""Compares the latency of rows with Structured Streaming's: `python -m benchmarks.latency`.

Files of 1,000 rows arrive in monitored folders at a fixed rate, and are read into parquet: row by row, and counted in
windows of a second. The latency of a file is the time from its arrival until readers see its rows, or the windows with
its rows. Each engine runs in its own process, with its defaults. They take turns, and the files of the first seconds
are ignored, as a warm-up. flykka publishes with its checkpoints, so it runs with several checkpoint intervals. At the
end the load rises until an engine falls behind. Before a figure is printed, the output of each run is checked: it must
contain every file once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.arguments import several
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError, EngineProcess
from benchmarks.latency import flykka_side, structured_streaming_side
from benchmarks.latency.files import Feed
from benchmarks.latency.worker import Side
from benchmarks.latency.works import Committed, WorkName, committed_files

WARM_UP_SECONDS = 15
LAST_SECONDS = 3
"""Seconds of additional files at the end, which let the windows before them close."""

PATIENCE_SECONDS = 60
"""Seconds after which missing output is an error."""

BEHIND_SECONDS = 3
"""Seconds within which the last file of a load step must be committed; otherwise the engine has fallen behind."""

STEP_SECONDS = 8
FIRST_RATE, RISE = 20.0, 1.5

_COMMITTED: dict[Side, Callable[[Path], list[Committed]]] = {
    Side.FLYKKA: flykka_side.committed,
    Side.STRUCTURED_STREAMING: structured_streaming_side.committed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    work: WorkName
    files_per_s: float
    sources: int

    def __str__(self) -> str:
        return f"{self.work}, {self.files_per_s:g} files/s, {self.sources} source{'s' * (self.sources > 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An engine; for flykka, with a checkpoint interval."""

    side: Side
    interval: str | None = None

    def __str__(self) -> str:
        return self.side if self.interval is None else f"{self.side}, {self.interval}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        return median(self.seconds)

    @property
    def p95(self) -> float:
        return quantiles(self.seconds, n=20)[-1]


Measured = Mapping[Setting, Mapping[Contender, Latencies]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder, ExitStack() as stack:
        try:
            engines = {
                side: stack.enter_context(EngineProcess(side, "benchmarks.latency.worker", (side,), options.heap))
                for side in Side
            }
            for engine in engines.values():
                engine.read()
            measured = _measured(engines, Path(folder), options, say)
            sustained = {} if options.no_rise else _sustained(engines, Path(folder), options, say)
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    print(json.dumps(as_json(measured, sustained), indent=2) if options.json else as_table(measured, sustained))
    return 0


def as_json(measured: Measured, sustained: Mapping[Side, float]) -> dict[str, Any]:
    """Return the ratios of each work's first setting at the shortest interval, followed by all measurements."""
    made: dict[str, Any] = {}
    for setting, found in measured.items():
        ours, theirs = next(iter(found.values())), found[_THEIRS]
        made.setdefault(
            str(setting.work),
            {
                "p50_over_structured_streaming": round(ours.p50 / theirs.p50, 2),
                "p95_over_structured_streaming": round(ours.p95 / theirs.p95, 2),
            },
        )
    if sustained:
        ratio = sustained[Side.FLYKKA] / sustained[Side.STRUCTURED_STREAMING]
        made["sustained_files_per_s_over_structured_streaming"] = round(ratio, 2)
        made["sustained_files_per_s"] = {str(side): round(rate) for side, rate in sustained.items()}
    made["seconds"] = {
        str(setting): {str(each): {"p50": round(of.p50, 3), "p95": round(of.p95, 3)} for each, of in found.items()}
        for setting, found in measured.items()
    }
    return made


def as_table(measured: Measured, sustained: Mapping[Side, float]) -> str:
    lines = [
        f"{os.cpu_count()} cores, seconds from a file's arrival to the commit of its rows:",
        "",
        "| work | engine, checkpoint interval | median | 95 % | over Structured Streaming's |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for setting, found in measured.items():
        theirs = found[_THEIRS]
        for each, of in found.items():
            ratio = "" if each == _THEIRS else f"{of.p50 / theirs.p50:.2f}, {of.p95 / theirs.p95:.2f}"
            lines.append(f"| {setting} | {each} | {of.p50:.2f} | {of.p95:.2f} | {ratio} |")
    lines += ["", *(f"{side} keeps up with {rate:.0f} files/s" for side, rate in sustained.items())]
    return "\n".join(lines)


_THEIRS = Contender(side=Side.STRUCTURED_STREAMING)


def _measured(
    engines: Mapping[Side, EngineProcess], folder: Path, options: argparse.Namespace, say: Callable[[str], object]
) -> Measured:
    contenders = (*(Contender(side=Side.FLYKKA, interval=each) for each in options.intervals), _THEIRS)
    measured: dict[Setting, dict[Contender, Latencies]] = {}
    for work, rate, sources in product(options.works, options.rates, options.sources):
        setting = Setting(work=work, files_per_s=rate, sources=sources)
        found: dict[Contender, Latencies] = {}
        for contender in contenders:
            latencies = _run(engines[contender.side], contender, setting, folder / "run", options.seconds)
            say(f"{setting}: {contender}: {latencies.p50:.2f} s, 95 %: {latencies.p95:.2f} s")
            found[contender] = latencies
        measured[setting] = found
    return measured


def _run(engine: EngineProcess, contender: Contender, setting: Setting, place: Path, seconds: int) -> Latencies:
    rate = setting.files_per_s
    files = round(rate * (WARM_UP_SECONDS + seconds + LAST_SECONDS))
    feed = Feed(files=files, files_per_s=rate, sources=setting.sources)
    feed.prepare(place)
    _start(engine, contender, setting.work, feed, place)
    feed.run(place)
    measured = range(round(rate * WARM_UP_SECONDS), round(rate * (WARM_UP_SECONDS + seconds)))
    committed = _await(contender, setting.work, feed, measured, place, PATIENCE_SECONDS)
    if missing := sorted(set(measured) - committed.keys()):
        raise WrongResultError(f"{setting}: {contender} has not committed file {missing[0]}, after a minute")
    engine.ask("null")
    arrivals = feed.arrivals(place)
    shutil.rmtree(place)
    return Latencies(seconds=tuple(committed[number] - arrivals[number] for number in measured))


def _sustained(
    engines: Mapping[Side, EngineProcess], folder: Path, options: argparse.Namespace, say: Callable[[str], object]
) -> dict[Side, float]:
    """Return the highest rate at which each engine kept up with the `stateless` work, in files per second."""
    sustained: dict[Side, float] = {}
    for contender in (Contender(side=Side.FLYKKA, interval=options.intervals[0]), _THEIRS):
        place, rate, first = folder / "rise", FIRST_RATE, 0
        engine = engines[contender.side]
        while True:
            feed = Feed(files=round(rate * STEP_SECONDS), files_per_s=rate, first=first)
            feed.prepare(place)
            if not first:
                _start(engine, contender, WorkName.STATELESS, feed, place)
            feed.run(place)
            last = range(first + feed.files - 1, first + feed.files)
            keeps_up = bool(_await(contender, WorkName.STATELESS, feed, last, place, BEHIND_SECONDS))
            say(f"{contender}: {rate:.0f} files/s: {'keeps up' if keeps_up else 'falls behind'}")
            if not keeps_up and not first:
                raise EngineFailedError(f"{contender} falls behind {rate:.0f} files/s, where the rising load begins")
            if not keeps_up:
                break
            sustained[contender.side] = rate
            first, rate = first + feed.files, rate * RISE
        engine.ask("null")
        shutil.rmtree(place)
    return sustained


def _start(engine: EngineProcess, contender: Contender, work: WorkName, feed: Feed, place: Path) -> None:
    sources = [str(feed.source(place, number)) for number in range(feed.sources)]
    engine.ask(json.dumps([work, sources, str(place), contender.interval]))


def _await(
    contender: Contender, work: WorkName, feed: Feed, numbers: range, place: Path, patience_s: float
) -> dict[int, float]:
    """Return the commit times of the files that were committed within the time limit."""
    ends = time.monotonic() + patience_s
    while True:
        committed = committed_files(work, feed, numbers, _COMMITTED[contender.side](place / "output"))
        if len(committed) == len(numbers) or time.monotonic() > ends:
            return committed
        time.sleep(0.5)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument(
        "--works", type=several(WorkName), default=tuple(WorkName), metavar="WORK,...", help=", ".join(WorkName)
    )
    parser.add_argument("--intervals", type=several(str), default=("200ms", "1s"), metavar="TIME,...")
    parser.add_argument("--rates", type=several(float), default=(4.0, 40.0), metavar="N,...", help="files a second")
    parser.add_argument("--sources", type=several(int), default=(1, 4), metavar="N,...")
    parser.add_argument("--seconds", type=int, default=30, metavar="N", help="how long is measured")
    parser.add_argument("--no-rise", action="store_true", help="leave out the rising load")
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
