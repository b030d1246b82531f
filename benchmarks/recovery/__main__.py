"""Measures failures: `python -m benchmarks.recovery`.

First, a job with four sinks runs repeatedly, each time with another fault at a moment drawn from a seed, and the output
that a reader sees is compared with the expected output. `--plain` turns the job's optimisations off. Then recovery
times are measured: the TaskManager of a job with a state of 100,000 keys is killed, alternating with a query of
Structured Streaming that is stopped and started, and a standby driver takes over from a killed one. The exit code is 1
if a row was lost or duplicated, or a job failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.engine_process import EngineFailedError
from benchmarks.recovery import sales
from benchmarks.recovery.fault_injection import USUAL, Kind
from benchmarks.recovery.kills import Kill, Kills, NoMomentError, WrongWithoutKillError
from benchmarks.recovery.results import as_json, as_text
from benchmarks.recovery.times import Times, measured


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    say = partial(print, file=sys.stderr, flush=True)
    if options.plain:
        os.environ["PYSPARK_SUBMIT_ARGS"] = sales.PLAIN
    folder = Path(tempfile.mkdtemp(prefix="flykka-recovery-")) if options.keep is None else options.keep
    kills: list[Kill] = []
    try:
        times = Times()
        if options.turns or options.takeovers:
            times = measured(folder / "times", options.turns, options.takeovers, options.heap, say)
        if options.kills:
            kills += Kills(folder / "kills", options.seed, options.kills, options.only, say).run()
    except (EngineFailedError, NoMomentError, WrongWithoutKillError) as failed:
        print(failed, file=sys.stderr)
        return 1
    found = as_json(kills, times)
    print(json.dumps(found, indent=2) if options.json else as_text(found, options.seed))
    wrong = [kill for kill in kills if not kill.is_right]
    for kill in wrong:
        print(f"wrong: {kill} (what it has written is in {folder / 'kills' / f'kill-{kill.number}'})", file=sys.stderr)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument("--kills", type=_count, default=208, metavar="N", help="how many kills (default 208)")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="what the moments are drawn from (default 7)")
    parser.add_argument("--only", type=_kinds, default=USUAL, metavar="KIND,...", help=", ".join(Kind))
    parser.add_argument("--turns", type=_count, default=20, metavar="N", help="timed recoveries and restarts")
    parser.add_argument("--takeovers", type=_count, default=3, metavar="N", help="timed takeovers")
    parser.add_argument("--heap", default="2g", metavar="SIZE", help="memory of each JVM that is timed (default 2g)")
    parser.add_argument("--plain", action="store_true", help="with the fast paths turned off")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder for all that is written")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _kinds(text: str) -> tuple[Kind, ...]:
    return tuple(Kind(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
