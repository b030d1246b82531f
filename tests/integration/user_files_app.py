"""A program with user files that reports which files its functions can read. As a process it runs on two Spark workers.

Argument: the folder of the files, which becomes the working folder. Prints as JSON the contents that the functions
read, and the files that the job has left.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka import (
    FileSink,
    FunctionRuntimeContext,
    KeyedProcessFunction,
    ProcessFunction,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)

MASTER = "local-cluster[2,1,1024]"


def seen(ctx: Any) -> dict[str, Any]:
    import moons  # type: ignore[import-not-found]
    import tides  # type: ignore[import-not-found]

    return {
        "executor": os.getcwd(),
        "saw": "|".join(
            (
                Path(ctx.get_cached_file("cities")).read_text(),
                Path(ctx.get_cached_file("map"), "below", "map.txt").read_text(),
                str(moons.COUNT),
                str(tides.HIGH),
                ctx.global_job_parameters["limit"],
            )
        ),
    }


class Plain(ProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.opened = seen(runtime_context)

    def process_element(self, row: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        assert seen(ctx) == self.opened
        yield {"id": row["id"], "kind": "plain", **self.opened}


class Keyed(KeyedProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        yield row
        yield {"id": row["id"], "kind": "keyed", **seen(ctx)}


class Rich(RichFunction):
    """Reads the files in the driver; a Spark function imports the modules in workers."""

    def open(self, context: RuntimeContext) -> None:
        self.saw = seen(context)["saw"]

    def __call__(self, rows: DataFrame) -> DataFrame:
        count = F.udf(module_counts, "string")
        kind = F.concat("kind", F.lit("+rich"), count("id"))
        return rows.withColumn("kind", kind).where(F.lit(self.saw) == F.col("saw"))


def module_counts(number: int) -> str:
    """Return the modules' values, in a function that Spark calls itself."""
    import moons
    import tides

    return f"+{moons.COUNT + tides.HIGH}"


def left_on(context: SparkContext) -> list[str]:
    """Return the job's files that remain in the driver and on the executors."""

    def here(_: Any) -> Iterator[str]:
        yield from (name for name in os.listdir(SparkFiles.getRootDirectory()) if name.startswith("flykka-file-"))

    return [*here(None), *context.parallelize(range(4), 4).mapPartitions(here).collect()]


def run_user_files_job(master: str | None) -> dict[str, Any]:
    folder = Path.cwd()
    with StreamExecutionEnvironment.get_execution_environment(master) as env:
        env.register_cached_file("cities.csv", "cities").add_python_archive("map.zip", "map")
        env.add_python_file("moons.py").set_python_requirements("needs.txt", "wheels")
        env.set_global_job_parameters({"limit": "7"}).set_checkpoint_dir(str(folder / "checkpoints"))
        numbers = env.from_dataframe(env.spark.range(0, 40, 1, 1 if master is None else 4), uid="numbers")
        plain = numbers.process(Plain(), "id long, kind string, executor string, saw string").uid("plain")
        keyed = plain.key_by("id").process(Keyed(), "id long, kind string, executor string, saw string").uid("keyed")
        keyed.transform(Rich()).uid("rich").sink_to(FileSink.json(str(folder / "out"))).uid("out")
        env.execute("user files")
        rows = env.spark.read.json(str(folder / "out")).collect()
        return {"rows": [row.asDict() for row in rows], "left": left_on(env.spark.sparkContext)}


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    print(json.dumps(run_user_files_job(MASTER)))
