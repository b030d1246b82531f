"""Compares random programs on random tables with a Spark batch.

    python -m benchmarks.differential --seeds 200

A seed draws tables, SQL queries and DataStream programs reproducibly. They run as streams with several batches, at
parallelism 1 and 4, some with a TaskManager killed on the way, some stopped with a savepoint and restored at another
parallelism. The output must equal that of one Spark batch, unless the program was refused before it ran. Late rows run
at parallelism 1 only, because between several subtasks it depends on their speed which rows are late, as in Flink. Up
to four seeds with the same time zone and the same runs share their jobs, so many seeds take less time each. Each
difference is shrunk to a script of less than 40 lines.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from benchmarks.arguments import positive_int
from benchmarks.differential.batches import Batches
from benchmarks.differential.cases import EQUAL, Case, Mode, Outcome
from benchmarks.differential.running import run
from benchmarks.differential.seeds import Drawing, draw
from benchmarks.differential.shrinking import Run, Shrinking, script
from flykka.spark_bridge.session.session import spark_session

_JVM = "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xmn1g"
_SPARK = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    # Replanning a running batch takes longer than its few rows; plans of streams are never replanned.
    "spark.sql.adaptive.enabled": "false",
    # Spark writes each plan as text, which takes as long as planning.
    "spark.sql.ui.explainMode": "simple",
    # Compiling a plan takes longer than interpreting it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_SEEDS_PER_JOB = 4
_SEEDS_AHEAD = 80
"""The number of seeds that are drawn at once, so that several of them have the same time zone and mode."""


@dataclass
class Found:
    seeds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, object]] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        numbers = {
            "equal": self.outcomes["equal"],
            "refused": self.outcomes["refused"],
            "differ": self.outcomes["differs"],
        }
        return {"seeds": self.seeds, **numbers, "reasons": dict(self.reasons), "differences": self.differences}


def try_seeds(spark: SparkSession, seeds: Sequence[int]) -> Found:
    found, batches = Found(), Batches(spark)

    def runs(cases: Sequence[Case], mode: Mode) -> list[Outcome]:
        return run(spark, cases, mode, batches)

    for start in range(0, len(seeds), _SEEDS_AHEAD):
        try_together(seeds[start : start + _SEEDS_AHEAD], runs, found, partial(print, file=sys.stderr, flush=True))
        batches.forget()
    return found


def try_together(seeds: Sequence[int], runs: Run, found: Found, say: Callable[[str], object]) -> None:
    """Run the programs of several seeds; seeds with the same time zone and modes share their jobs."""
    drawn = {seed: draw(seed) for seed in seeds}
    alike: dict[tuple[str, frozenset[Mode]], list[int]] = {}
    for seed, (drawings, modes) in drawn.items():
        alike.setdefault((drawings[0].case.zone, frozenset(modes)), []).append(seed)
    for some in alike.values():
        for start in range(0, len(some), _SEEDS_PER_JOB):
            of_jobs = some[start : start + _SEEDS_PER_JOB]
            programs = [(seed, *program) for seed in of_jobs for program in enumerate(drawn[seed][0])]
            _try_programs(programs, drawn[of_jobs[0]][1], runs, found, say)
            found.seeds += len(of_jobs)
            say(f"seeds {', '.join(map(str, of_jobs))}: {dict(found.outcomes)} of {found.seeds} seeds")


def _try_programs(
    programs: Sequence[tuple[int, int, Drawing]],
    modes: Sequence[Mode],
    runs: Run,
    found: Found,
    say: Callable[[str], object],
) -> None:
    """Run programs, given with seed and index, in each of the modes, and shrink those with a difference."""
    outcomes = [EQUAL] * len(programs)
    ways = [modes[0]] * len(programs)
    for mode in modes:
        going = [number for number, outcome in enumerate(outcomes) if outcome.kind == "equal"]
        results = runs([programs[number][2].case for number in going], mode) if going else []
        for number, outcome in zip(going, results, strict=True):
            outcomes[number], ways[number] = outcome, mode
    for (seed, place, drawing), outcome, mode in zip(programs, outcomes, ways, strict=True):
        found.outcomes[outcome.kind] += 1
        if outcome.kind == "refused":
            found.reasons[outcome.why] += 1
        if outcome.kind == "differs":
            known = any(outcome.sort == each["sort"] for each in found.differences) and outcome.sort != "rows"
            shrinking = Shrinking(runs, drawing, mode, outcome)
            if not known:
                shrinking.shrink()
            title = f"Program {place} of seed {seed}, {shrinking.mode}: {shrinking.outcome.why}"
            text = script(shrinking.case, shrinking.mode, title)
            found.differences.append({"seed": seed, "program": place, "sort": outcome.sort, "script": text})
            say(f"seed {seed}, program {place}, {mode}: {outcome.why}\n{drawing.case.stream}")
            say(f"the same as before: {outcome.sort}" if known else text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; the exit code is 1 if a program differs."""
    options = _parser().parse_args(arguments)
    logging.getLogger("flykka").setLevel(logging.CRITICAL)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _JVM)
    spark = spark_session("local[2]", "differential", _SPARK)
    found = try_seeds(spark, range(options.seed, options.seed + options.seeds))
    numbers = found.as_json()
    print(json.dumps(numbers if options.json else {**numbers, "differences": len(found.differences)}, indent=2))
    return 1 if found.differences else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.differential",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=positive_int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first of them (default 0)")
    parser.add_argument("--json", action="store_true", help="print the differences too, with their scripts, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
