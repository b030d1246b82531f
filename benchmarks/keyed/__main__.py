"""Compares functions with state with Structured Streaming's: `python -m benchmarks.keyed`.

Running counts per key, a function of each row with a ValueState and a timer, the same work on tables, rows without
duplicates, and state of many keys in a small heap. Both engines read the same files, a file per batch, and write
parquet; each runs in its own process for each work and processes some of the files first, to warm up. Then they take
turns, and the median of their ratios counts. Each output is compared with the expected one before a figure is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.arguments import several
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError, EngineProcess
from benchmarks.keyed.worker import Side, run
from benchmarks.keyed.works import WORKS, Work, WorkName, check
from benchmarks.memory import PeakMemory

_WARM_UP_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of one work: the seconds of each run by engine, and flykka's peak memory in bytes."""

    rows: int
    keys: int
    seconds: dict[Side, list[float]]
    peak_bytes: int | None

    @property
    def ratio(self) -> float:
        pairs = zip(self.seconds[Side.STRUCTURED_STREAMING], self.seconds[Side.FLYKKA], strict=True)
        return median(theirs / ours for theirs, ours in pairs)

    def rows_per_s(self, side: Side) -> int:
        return round(self.rows / median(self.seconds[side]))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    measured: dict[WorkName, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-", dir=options.folder) as folder:
        try:
            for name in options.only:
                measured[name] = _measured(name, _scaled(WORKS[name], options.scale), Path(folder), options, say)
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    print(json.dumps(as_json(measured), indent=2) if options.json else as_table(measured))
    return 0


def as_json(measured: dict[WorkName, Measured]) -> dict[str, Any]:
    made: dict[str, Any] = {
        f"{name}_over_structured_streaming": round(each.ratio, 2)
        for name, each in measured.items()
        if name is not WorkName.LARGE_STATE
    }
    if (large := measured.get(WorkName.LARGE_STATE)) is not None:
        peak = None if large.peak_bytes is None else large.peak_bytes >> 20
        made["large_state"] = {"keys": large.keys, "rows_per_s": large.rows_per_s(Side.FLYKKA), "peak_mib": peak}
    return made


def as_table(measured: dict[WorkName, Measured]) -> str:
    lines = [
        f"{os.cpu_count()} cores:",
        "",
        "| work | keys | rows | flykka, rows/s | Structured Streaming, rows/s | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, each in measured.items():
        ours = f"{each.rows_per_s(Side.FLYKKA):,}"
        if name is WorkName.LARGE_STATE:
            peak = "" if each.peak_bytes is None else f", {each.peak_bytes >> 20:,} MiB"
            cells = [ours + peak, "", ""]
        else:
            cells = [ours, f"{each.rows_per_s(Side.STRUCTURED_STREAMING):,}", f"{each.ratio:.2f}"]
        lines.append(f"| {' | '.join([name, f'{each.keys:,}', f'{each.rows:,}', *cells])} |")
    return "\n".join(lines)


def _measured(
    name: WorkName, work: Work, folder: Path, options: argparse.Namespace, say: Callable[[str], object]
) -> Measured:
    say(f"{name}: writing {work.files} files of {work.rows_per_file:,} rows")
    source, first = folder / "input", folder / "first"
    work.write(source, work.files, work.rows_per_file, work.keys)
    for number, path in enumerate(sorted(source.iterdir())):
        # Structured Streaming reads files by modification time, which would be equal for small files.
        os.utime(path, (number, number))
    _link(source, first, _WARM_UP_FILES)
    is_large = name is WorkName.LARGE_STATE
    sides = (Side.FLYKKA,) if is_large else tuple(Side)
    seconds: dict[Side, list[float]] = {side: [] for side in sides}
    peak: int | None = None
    heap = options.large_heap if is_large else options.heap
    with ExitStack() as stack:
        engines = {
            side: stack.enter_context(
                EngineProcess(side, "benchmarks.keyed.worker", (side, str(options.parallelism)), heap)
            )
            for side in sides
        }
        for side, engine in engines.items():
            engine.read()
            if not is_large:
                run(engine, name, first, folder / side)
        for number in range(1 if is_large else options.repeat):
            for side, engine in engines.items():
                with PeakMemory(engine.pid) as memory:
                    took = run(engine, name, source, folder / side)
                check(side, folder / side / "output", source, work)
                say(f"{name}, round {number + 1}: {side}: {took:.1f} s")
                seconds[side].append(took)
                if side is Side.FLYKKA:
                    peak = max(peak or 0, memory.bytes or 0) or None
    rows = sum(pq.read_metadata(path).num_rows for path in source.glob("*.parquet"))
    for path in folder.iterdir():
        shutil.rmtree(path)
    return Measured(rows=rows, keys=work.keys, seconds=seconds, peak_bytes=peak)


def _link(source: Path, target: Path, files: int) -> None:
    target.mkdir()
    for path in sorted(source.iterdir())[:files]:
        (target / path.name).hardlink_to(path)


def _scaled(work: Work, scale: float) -> Work:
    """Return the work with fewer rows and keys, in the same number of files."""
    rows, keys = max(1, round(scale * work.rows_per_file)), max(1, round(scale * work.keys))
    return replace(work, rows_per_file=rows, keys=keys)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keyed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument(
        "--only", type=several(WorkName), default=tuple(WorkName), metavar="WORK,...", help=", ".join(WorkName)
    )
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="of rows and keys; 0.01 is quick")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="timed runs of each engine")
    parser.add_argument("--parallelism", type=int, default=1, metavar="N", help="of flykka's keyed operators")
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    parser.add_argument("--large-heap", default="2g", metavar="SIZE", help="the same for the large state (default 2g)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put files (default: as the system says)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
