"""Compares the queries of Nexmark with Structured Streaming and plain Spark: `python -m benchmarks.nexmark`.

Every engine reads the same files of persons, auctions and bids and writes parquet. Each runs in its own process, and
processes a tenth of the files first, to warm up. Then they take turns; the median of each counts. Each output is
compared with that of the batch before a figure is printed. Structured Streaming never emits the windows that are open
at the end of its input: windows of the last 20 seconds are not compared for it. A query that an engine cannot run is
listed, with the engine's own error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.arguments import positive_int, several
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError, EngineProcess
from benchmarks.engines import EngineName
from benchmarks.nexmark.inputs import prepared
from benchmarks.nexmark.sides import NotRunnableError
from benchmarks.nexmark.worker import compare, run
from examples.nexmark.queries import QUERIES

_EVENTS_MIN = 400_000
"""Forty seconds of events: with fewer events, no window would end before those that are not compared."""


@dataclass(slots=True, kw_only=True)
class Measured:
    """Measurements of a query: the seconds of each run by engine, and the reasons why engines cannot run it."""

    seconds: dict[EngineName, list[float]] = field(default_factory=dict)
    not_run: dict[EngineName, str] = field(default_factory=dict)

    def rows_per_s(self, engine: EngineName, events: int) -> int | None:
        return round(events / median(self.seconds[engine])) if engine in self.seconds else None

    @property
    def ratio(self) -> float | None:
        if not {EngineName.FLYKKA, EngineName.STRUCTURED_STREAMING} <= self.seconds.keys():
            return None
        return median(self.seconds[EngineName.STRUCTURED_STREAMING]) / median(self.seconds[EngineName.FLYKKA])


class Nexmark:
    def __init__(self, options: argparse.Namespace, folder: Path, say: Callable[[str], object]) -> None:
        """Create the benchmark. `folder` keeps the last output of each engine; `say` receives progress messages."""
        self._options = options
        self._folder = folder
        self._say = say

    def run(self) -> dict[str, Measured]:
        """Measure each query.

        Raises:
            EngineFailedError: the process of an engine has exited.
            WrongResultError: flykka's result differs from that of the batch.
        """
        options = self._options
        self._say(f"preparing {options.events:,} events in {options.files} files")
        source = prepared(options.events, options.files)
        first_files = self._folder / "first"
        first_files.mkdir()
        for path in sorted(source.iterdir())[: math.ceil(options.files / 10)]:
            (first_files / path.name).symlink_to(path)
        numbers = (options.rows_per_batch, -(-options.events // options.files), options.parallelism)
        with ExitStack() as stack:
            engines = {
                name: stack.enter_context(
                    EngineProcess(name, "benchmarks.nexmark.worker", (name, *map(str, numbers)), options.heap)
                )
                for name in EngineName
            }
            for engine in engines.values():
                engine.read()
            return {query: self._measured(query, engines, first_files, source) for query in options.only}

    def _measured(
        self, query: str, engines: Mapping[EngineName, EngineProcess], first_files: Path, source: Path
    ) -> Measured:
        found = Measured()
        for name, engine in engines.items():
            try:
                run(engine, query, first_files, self._place(name))
            except NotRunnableError as why_not:
                self._leave_out(query, name, str(why_not), found)
        for number in range(self._options.repeat):
            for name in [each for each in engines if each not in found.not_run]:
                seconds = run(engines[name], query, source, self._place(name))
                self._say(f"{query}, round {number + 1}: {name}: {seconds:.1f} s")
                if (differences := self._differences(query, name, engines)) is None:
                    found.seconds.setdefault(name, []).append(seconds)
                elif name is EngineName.FLYKKA:
                    raise WrongResultError(f"{query}: {name} {differences}")
                else:
                    self._leave_out(query, name, f"does not give what the batch does: {differences}", found)
        return found

    def _differences(self, query: str, name: EngineName, engines: Mapping[EngineName, EngineProcess]) -> str | None:
        if name is EngineName.SPARK_BATCH:
            return None
        return compare(
            engines[EngineName.SPARK_BATCH],
            query,
            self._place(name),
            self._place(EngineName.SPARK_BATCH),
            self._options.events,
            closed=name is EngineName.STRUCTURED_STREAMING,
        )

    def _leave_out(self, query: str, name: EngineName, why: str, found: Measured) -> None:
        self._say(f"{query}: {name}: {why}")
        found.not_run[name] = why
        found.seconds.pop(name, None)

    def _place(self, name: EngineName) -> Path:
        return self._folder / name


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := [query for query in options.only if query not in QUERIES]:
        parser.error(f"there is no query {unknown[0]}, but {QUERIES[0]} to {QUERIES[-1]}")
    if options.events < _EVENTS_MIN:
        parser.error(f"{_EVENTS_MIN:,} events are the fewest of which windows can be compared")
    if options.rows_per_batch * options.files < options.events:
        parser.error("Structured Streaming reads whole files: one does not fit in a batch, give it more --files")
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-", dir=options.folder) as folder:
        try:
            measured = Nexmark(options, Path(folder), say).run()
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    print(json.dumps(as_json(measured, options.events), indent=2) if options.json else as_table(measured, options))
    return 0


def as_json(measured: Mapping[str, Measured], events: int) -> dict[str, Any]:
    """Return events per second by query and engine, null with the reason if not run, and the mean ratio."""
    made: dict[str, Any] = {
        query: {str(name): each.rows_per_s(name, events) for name in _ORDER} for query, each in measured.items()
    }
    ratios = [each.ratio for each in measured.values() if each.ratio is not None]
    mean = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 2) if ratios else None
    made["geometric_mean_over_structured_streaming"] = mean
    made["queries_equal_to_batch"] = sum(EngineName.FLYKKA in each.seconds for each in measured.values())
    made["not_run"] = {
        str(name): {query: each.not_run[name] for query, each in measured.items() if name in each.not_run}
        for name in _ORDER[:2]
    }
    return made


def as_table(measured: Mapping[str, Measured], options: argparse.Namespace) -> str:
    lines = [
        f"{options.events:,} events in {options.files} files, {options.rows_per_batch:,} rows per batch, medians of"
        f" {options.repeat}, {os.cpu_count()} cores:",
        "",
        "| events/s | flykka | Structured Streaming | plain Spark batch | flykka over Structured Streaming |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for query, each in measured.items():
        speeds = [each.rows_per_s(name, options.events) for name in _ORDER]
        cells = ["" if speed is None else f"{speed:,}" for speed in speeds]
        lines.append(f"| {' | '.join([query, *cells, '' if each.ratio is None else f'{each.ratio:.2f}'])} |")
    found = as_json(measured, options.events)
    mean = found["geometric_mean_over_structured_streaming"]
    lines += ["", f"Geometric mean of the ratios: {mean}. Not run:", ""]
    lines += [f"- {query}, {name}: {why}" for name, each in found["not_run"].items() for query, why in each.items()]
    return "\n".join(lines)


_ORDER = (EngineName.FLYKKA, EngineName.STRUCTURED_STREAMING, EngineName.SPARK_BATCH)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--only", type=several(str), default=QUERIES, metavar="QUERY,...", help="q0 to q22")
    parser.add_argument("--events", type=positive_int, default=10_000_000, metavar="N", help="how many events")
    parser.add_argument("--files", type=positive_int, default=80, metavar="N", help="in how many files")
    parser.add_argument("--rows-per-batch", type=positive_int, default=500_000, metavar="N")
    parser.add_argument("--repeat", type=positive_int, default=3, metavar="N", help="timed runs of each engine")
    parser.add_argument("--parallelism", type=positive_int, default=1, metavar="N", help="of flykka's operators")
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put files (default: as the system says)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
