"""Times a backlog of small files, from the start of a process to its end: `python -m benchmarks.backlog`.

The README's job, errors per service and minute, over 300 JSON files of 500 lines that exist when it starts. Each engine
runs in a new process without warm-up, with its own defaults. The engines take turns; the median of each counts.
Structured Streaming runs with its defaults: `availableNow`, all files in one batch, 200 shuffle partitions.
`--files-per-trigger N` adds a run with batches of N files. All outputs are compared with that of a plain batch before a
figure is printed. Structured Streaming never emits the windows that are open at the end of its input, so it is compared
without these.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from benchmarks.arguments import positive_int
from benchmarks.backlog import logs
from benchmarks.backlog.engines import EngineName
from benchmarks.comparison import TIME, WrongResultError, check, check_closed_windows, result
from benchmarks.engine_process import EngineFailedError

_RESULT = pa.schema({"window_start": TIME, "window_end": TIME, "service": pa.string(), "errors": pa.int64()})
_LEFT_OPEN = timedelta(minutes=2)
"""The watermark is a minute behind the last line, so only the last two windows stay open."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        try:
            runs = _run(Path(folder), options, say)
        except (EngineFailedError, WrongResultError) as failed:
            print(failed, file=sys.stderr)
            return 1
    found = as_json(runs)
    print(json.dumps(found, indent=2) if options.json else _table(found, options))
    return 0


def as_json(runs: Mapping[EngineName, Sequence[float]]) -> dict[str, Any]:
    seconds = {name: median(several) for name, several in runs.items()}
    ratios = {
        f"{EngineName.FLYKKA}_over_{name}": round(seconds[name] / seconds[EngineName.FLYKKA], 2)
        for name in (EngineName.STRUCTURED_STREAMING, EngineName.STRUCTURED_STREAMING_IN_PARTS)
        if name in seconds
    }
    return {**ratios, "seconds": {str(name): round(took, 1) for name, took in seconds.items()}}


def _run(
    folder: Path, options: argparse.Namespace, say: Callable[[str], object]
) -> Mapping[EngineName, Sequence[float]]:
    say(f"writing {options.rows:,} lines into {options.files} files")
    source = folder / "logs"
    logs.write(source, options.rows, options.files)
    in_parts = () if options.files_per_trigger is None else (str(options.files_per_trigger),)
    names = [name for name in EngineName if in_parts or name is not EngineName.STRUCTURED_STREAMING_IN_PARTS]
    runs: dict[EngineName, list[float]] = {name: [] for name in names}
    for number in range(options.repeat):
        # The batch runs first, because the others are compared with its output.
        expected: pa.Table | None = None
        for name in names:
            place = folder / name
            if place.exists():
                shutil.rmtree(place)
            place.mkdir()
            given = in_parts if name is EngineName.STRUCTURED_STREAMING_IN_PARTS else ()
            took = _timed(name, (str(source), str(place), *given))
            written = result(place / "output", _RESULT)
            if expected is None:
                expected = written
            elif name is EngineName.FLYKKA:
                check(name, written, expected)
            else:
                check_closed_windows(name, written, expected, _LEFT_OPEN)
            say(f"round {number + 1}: {name}: {took:.1f} s")
            runs[name].append(took)
    return runs


def _timed(name: EngineName, arguments: Sequence[str]) -> float:
    """Return the seconds from the start of an engine's process to its end. Raises `EngineFailedError`."""
    command = [sys.executable, "-m", "benchmarks.backlog.engines", name, *arguments]
    begun = time.perf_counter()
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begun
    if ended.returncode:
        raise EngineFailedError(f"{name} ended with exit code {ended.returncode}:\n{ended.stderr[-4_000:]}")
    return took


def _table(found: Mapping[str, Any], options: argparse.Namespace) -> str:
    lines = [
        f"{options.rows:,} lines in {options.files} files, medians of {options.repeat}, {os.cpu_count()} cores:",
        "",
        "| engine | seconds | flykka is faster by |",
        "| --- | ---: | ---: |",
    ]
    for name, seconds in found["seconds"].items():
        ratio = found.get(f"{EngineName.FLYKKA}_over_{name}", "")
        lines.append(f"| {_TITLES[EngineName(name)].format(options.files_per_trigger)} | {seconds} | {ratio} |")
    return "\n".join(lines)


_TITLES = {
    EngineName.FLYKKA: "flykka, as it is",
    EngineName.STRUCTURED_STREAMING: "Structured Streaming, as it is: all files in one batch",
    EngineName.STRUCTURED_STREAMING_IN_PARTS: "Structured Streaming, {} files per trigger",
    EngineName.SPARK_BATCH: "plain Spark batch",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.backlog", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--rows", type=positive_int, default=150_000, metavar="N", help="how many lines")
    parser.add_argument("--files", type=positive_int, default=300, metavar="N", help="in how many files")
    parser.add_argument("--repeat", type=positive_int, default=3, metavar="N", help="runs of each engine")
    parser.add_argument(
        "--files-per-trigger", type=positive_int, metavar="N", help="a Structured Streaming of such batches"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
