"""Keeps the queries of TPC-H and TPC-DS up to date, and compares that with a Spark batch.

    python -m benchmarks.incremental --json
    python -m benchmarks.incremental --check --scale 0.01 --fraction 0.01 --suite tpcds --queries q5,q14

The tables are streams of inserts, updates and deletes, which DuckDB's generators and a seed determine. The first step
inserts all rows; each later one changes a share of the orders and line items (of sales and returns), and a few rows of
some other tables. A step is measured from the arrival of its files to the completion of the checkpoint that publishes
its results; beside it the query runs as a Spark batch over all rows, with the same settings.

With --check several queries run in one job, and the result after each step must equal the batch over the rows of that
step: decimals exactly, doubles to nine digits if the query adds floating values.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.arguments import positive_float, positive_int, several
from benchmarks.incremental.checking import SETTINGS, Checking, Mode
from benchmarks.incremental.data import Data, prepared
from benchmarks.incremental.measuring import Measuring, as_json, as_table
from benchmarks.incremental.suites import SUITES, SuiteName
from flykka import StreamExecutionEnvironment
from flykka.spark_bridge.session.session import spark_session

_FEW_ROWS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    # Planning again, and compiling, take longer than a check's few rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or measure; the exit code is 1 if a query is refused, fails or differs."""
    parser = _parser()
    options = parser.parse_args(arguments)
    suite = SUITES[options.suite]
    queries = options.queries or suite.checked
    if unknown := [query for query in queries if query not in suite.queries]:
        parser.error(f"{suite.name} has no query {unknown[0]}, but q1 to q{len(suite.queries)}")
    if options.restored_at is not None and (1 in (options.parallelism, options.restored_at)):
        parser.error("--restored-at needs two values above 1: the ids of operators depend on which are chained")
    logging.getLogger("flykka").setLevel(logging.CRITICAL)
    data = prepared(suite, options.scale, options.steps, options.fraction, with_rows_of_all=options.check)
    with tempfile.TemporaryDirectory(prefix="flykka-benchmark-", dir=options.folder) as folder:
        work = _check if options.check else _measure
        return work(data, queries, options, Path(folder))


def _check(data: Data, queries: Sequence[str], options: argparse.Namespace, folder: Path) -> int:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _JVM)
    spark = spark_session("local[2]", "incremental", {**_FEW_ROWS, **SETTINGS})
    mode = Mode(parallelism=options.parallelism, kill=options.kill, restored_at=options.restored_at)
    problems = Checking(spark, data, folder, partial(print, file=sys.stderr, flush=True)).run(queries, mode)
    wrong = {each.query for each in problems}
    by_kind = {kind: sorted({each.query for each in problems if each.kind == kind}) for kind in KINDS}
    print(json.dumps({"equal": len(set(queries) - wrong), **by_kind}, indent=2))
    return 1 if problems else 0


def _measure(data: Data, queries: Sequence[str], options: argparse.Namespace, folder: Path) -> int:
    spark_session("local[*]", "incremental", {"spark.driver.memory": options.heap, **SETTINGS})
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_parallelism(options.parallelism)
        found = Measuring(env, data, folder, partial(print, file=sys.stderr, flush=True)).run(queries)
    print(json.dumps(as_json(found), indent=2) if options.json else as_table(found))
    return 0 if as_json(found)["equal"] == len(queries) else 1


KINDS = ("refused", "fails", "differs")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.incremental",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", type=SuiteName, choices=list(SuiteName), default=SuiteName.TPCH)
    parser.add_argument("--queries", type=several(str), metavar="QUERY,...", help="default: those that are checked")
    parser.add_argument(
        "--scale", type=positive_float, default=1.0, metavar="SF", help="size of the tables (default 1)"
    )
    parser.add_argument("--steps", type=positive_int, default=5, metavar="N", help="after the first one (default 5)")
    parser.add_argument(
        "--fraction", type=positive_float, default=0.001, metavar="F", help="changed by a step (default 0.001)"
    )
    parser.add_argument("--parallelism", type=positive_int, default=1, metavar="N", help="of flykka's operators")
    parser.add_argument("--check", action="store_true", help="compare the results after each step, and measure nothing")
    parser.add_argument("--kill", action="store_true", help="with --check: kill a TaskManager in the middle")
    parser.add_argument(
        "--restored-at",
        type=positive_int,
        metavar="N",
        help="with --check: stop with a savepoint in the middle, and resume at this parallelism (above 1)",
    )
    parser.add_argument("--heap", default="6g", metavar="SIZE", help="memory of the JVM (default 6g)")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put files (default: as the system says)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
