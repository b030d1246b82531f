"""Measures the speed of a stream in flykka, Structured Streaming and plain Spark: `python -m benchmarks.streaming`.

Bids and the highest price per auction, in windows of a second, from parquet to parquet. Every engine runs in its own
process for each batch size, and is warmed up on all bids, twice. Then they take turns, so that other load on the
machine affects all of them; the median of each engine counts. All outputs are compared with that of the batch before a
figure is printed. Structured Streaming never emits the windows that are open at the end of its input, so the last two
windows are not compared for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.arguments import positive_int, several
from benchmarks.comparison import WrongResultError
from benchmarks.engine_process import EngineFailedError
from benchmarks.engines import EngineName
from benchmarks.race import Race, TooFewCheckpointsError
from benchmarks.results import Runs, as_json, as_table
from benchmarks.rules import Rules


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    rules = Rules(
        rows=options.rows,
        files=options.files,
        sizes=tuple(sorted(options.rows_per_batch)),
        engines=tuple(options.only),
        repeat=options.repeat,
        checkpoints_at_least=options.checkpoints_at_least,
        heap=options.heap,
    )
    if rules.sizes[0] < rules.rows_per_file:
        parser.error(f"Structured Streaming reads whole files: {rules.rows_per_file:,} rows do not fit in a batch")
    try:
        runs = _run(rules, options.keep)
    except (EngineFailedError, TooFewCheckpointsError, WrongResultError) as failed:
        print(failed, file=sys.stderr)
        return 1
    results = as_json(runs, rules.rows)
    print(json.dumps(results, indent=2) if options.json else as_table(results, rules))
    return 0


def _run(rules: Rules, keep: Path | None) -> Runs:
    say = partial(print, file=sys.stderr, flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return Race(rules, keep, say).run()
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-") as folder:
        return Race(rules, Path(folder), say).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streaming", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--rows", type=positive_int, default=40_000_000, metavar="N", help="how many bids")
    parser.add_argument("--files", type=positive_int, default=80, metavar="N", help="in how many files")
    parser.add_argument("--repeat", type=positive_int, default=3, metavar="N", help="timed runs of each engine")
    parser.add_argument(
        "--only", type=several(EngineName), default=tuple(EngineName), metavar="ENGINE,...", help=_ENGINES
    )
    parser.add_argument("--rows-per-batch", type=several(positive_int), default=(500_000, 2_500_000), metavar="N,...")
    parser.add_argument("--checkpoints-at-least", type=int, default=5, metavar="N", help="of a run of flykka's")
    parser.add_argument("--heap", default="4g", metavar="SIZE", help="memory of each JVM (default 4g)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave there what each engine has written last")
    return parser


_ENGINES = f"which of {', '.join(EngineName)}; plain Spark always runs, for the others are compared with it"


if __name__ == "__main__":
    sys.exit(main())
