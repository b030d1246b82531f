"""Compares an interval join with Structured Streaming's: `python -m benchmarks.joins`.

Clicks are joined with the impressions of their ad in the ten minutes before. Both engines read the same files, one of
each side per batch, and write parquet. Each runs in its own process, and joins some of the files first, to warm up.
Then they take turns, and the median of their ratios counts. Each output is compared with the expected one before a
figure is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError, EngineProcess
from benchmarks.joins.rows import CLICKS, IMPRESSIONS, check, write
from benchmarks.keyed.worker import Side

_WARM_UP_FILES = 3

Seconds = dict[Side, list[float]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-", dir=options.folder) as folder:
        try:
            seconds = _measured(Path(folder), options)
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    rows = 2 * options.files * options.rows_per_file
    print(json.dumps(as_json(seconds, rows), indent=2) if options.json else as_table(seconds, rows))
    return 0


def as_json(seconds: Seconds, rows: int) -> dict[str, float]:
    pairs = zip(seconds[Side.STRUCTURED_STREAMING], seconds[Side.FLYKKA], strict=True)
    return {
        **{side: round(rows / median(took)) for side, took in seconds.items()},
        "interval_join_over_structured_streaming": round(median(theirs / ours for theirs, ours in pairs), 2),
    }


def as_table(seconds: Seconds, rows: int) -> str:
    figures = as_json(seconds, rows)
    ratio = figures["interval_join_over_structured_streaming"]
    cells = [f"{rows:,}", *(f"{figures[side]:,}" for side in Side), f"{ratio:.2f}"]
    return "\n".join(
        [
            f"{os.cpu_count()} cores:",
            "",
            "| rows of both sides | flykka, rows/s | Structured Streaming, rows/s | ratio |",
            "| ---: | ---: | ---: | ---: |",
            f"| {' | '.join(cells)} |",
        ]
    )


def _measured(folder: Path, options: argparse.Namespace) -> Seconds:
    say = partial(print, file=sys.stderr, flush=True)
    say(f"writing {options.files} files of {options.rows_per_file:,} rows for each side")
    source, first = folder / "input", folder / "first"
    write(source, options.files, options.rows_per_file)
    for side in (IMPRESSIONS, CLICKS):
        (first / side).mkdir(parents=True)
        for path in sorted((source / side).iterdir())[:_WARM_UP_FILES]:
            (first / side / path.name).hardlink_to(path)
    seconds: Seconds = {side: [] for side in Side}
    with ExitStack() as stack:
        engines = {
            side: stack.enter_context(
                EngineProcess(side, "benchmarks.joins.worker", (side, str(options.parallelism)), options.heap)
            )
            for side in Side
        }
        for side, engine in engines.items():
            engine.read()
            _run(engine, first, folder / side)
        for number in range(options.repeat):
            for side, engine in engines.items():
                took = _run(engine, source, folder / side)
                pairs = check(side, folder / side / "output", source)
                say(f"round {number + 1}: {side}: {pairs:,} pairs in {took:.1f} s")
                seconds[side].append(took)
    return seconds


def _run(engine: EngineProcess, source: Path, place: Path) -> float:
    if place.exists():
        shutil.rmtree(place)
    place.mkdir()
    seconds: float = engine.ask(json.dumps([str(source), str(place)]))
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.joins", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--files", type=int, default=12, metavar="N", help="of each side (default 12)")
    parser.add_argument("--rows-per-file", type=int, default=250_000, metavar="N", help="(default 250000)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs of each engine (default 3)")
    parser.add_argument("--parallelism", type=int, default=1, metavar="N", help="of flykka's join (default 1)")
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put files (default: as the system says)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
