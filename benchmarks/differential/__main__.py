"""Compares random programs on random tables with a Spark batch.

    python -m benchmarks.differential --seeds 200

A seed draws tables, SQL queries and DataStream programs reproducibly. They run as streams with several batches, at
parallelism 1 and 4, some with a TaskManager killed on the way, some stopped with a savepoint and restored at another
parallelism. The output must equal that of one Spark batch, unless the program was refused before it ran. Late rows run
at parallelism 1 only, because between several subtasks it depends on their speed which rows are late, as in Flink. Each
difference is shrunk to a script of less than 40 lines.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from benchmarks.arguments import positive_int
from benchmarks.differential.running import Outcome, run
from benchmarks.differential.seeds import draw
from benchmarks.differential.shrinking import Run, Shrinking, script
from flykka.spark_bridge.session.session import spark_session

_JVM = "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
_SPARK = {
    "spark.sql.shuffle.partitions": "2",
    # Compiling a plan takes longer than interpreting it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class Found:
    seeds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, object]] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return the numbers, the reasons of refusals, and the differences with their scripts."""
        numbers = {
            "equal": self.outcomes["equal"],
            "refused": self.outcomes["refused"],
            "differ": self.outcomes["differs"],
        }
        return {"seeds": self.seeds, **numbers, "reasons": dict(self.reasons), "differences": self.differences}


def try_seed(seed: int, runs: Run, found: Found, say: Callable[[str], object]) -> None:
    """Run the programs of a seed in each of its modes, and shrink differences."""
    drawings, modes = draw(seed)
    outcomes = [Outcome("equal")] * len(drawings)
    ways = [modes[0]] * len(drawings)
    for mode in modes:
        going = [place for place, outcome in enumerate(outcomes) if outcome.kind == "equal"]
        for place, outcome in zip(going, runs([drawings[place].case for place in going], mode), strict=True):
            outcomes[place], ways[place] = outcome, mode
    found.seeds += 1
    for place, outcome in enumerate(outcomes):
        found.outcomes[outcome.kind] += 1
        if outcome.kind == "refused":
            found.reasons[outcome.why] += 1
        if outcome.kind == "differs":
            known = any(outcome.sort == each["sort"] for each in found.differences) and outcome.sort != "rows"
            shrinking = Shrinking(runs, drawings[place], ways[place], outcome)
            if not known:
                shrinking.shrink()
            title = f"Program {place} of seed {seed}, {shrinking.mode}: {shrinking.outcome.why}"
            text = script(shrinking.case, shrinking.mode, title)
            found.differences.append({"seed": seed, "program": place, "sort": outcome.sort, "script": text})
            say(f"seed {seed}, program {place}, {ways[place]}: {outcome.why}\n{drawings[place].case.stream}")
            say(f"the same as before: {outcome.sort}" if known else text)


def try_seeds(spark: SparkSession, seeds: Iterable[int]) -> Found:
    """Run the programs of seeds one after the other, and report each seed on stderr."""
    found, say = Found(), partial(print, file=sys.stderr, flush=True)
    for seed in seeds:
        try_seed(seed, partial(run, spark), found, say)
        say(f"seed {seed}: {dict(found.outcomes)}")
    return found


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
