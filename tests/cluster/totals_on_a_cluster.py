"""Computes running totals on a standalone Spark cluster whose executors have separate folders; a test starts this
module.

`python -m tests.cluster.totals_on_a_cluster MASTER FOLDER`: the last line is the result, or the difference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import functions as F

from flykka import FileSink, FileSource, StreamExecutionEnvironment

FILES = 24
KEYS = 50


def run_totals_job(master: str, folder: Path) -> int:
    """Run the job, and return 0 if the totals equal those of a batch."""
    source, output = folder / "source", folder / "output"
    source.mkdir()
    for number in range(FILES):
        rows = pd.DataFrame({"key": [(number + row) % KEYS for row in range(200)], "amount": range(200)})
        rows.to_parquet(source / f"{number:02}.parquet")
    with StreamExecutionEnvironment.get_execution_environment(master, 2, 2) as env:
        env.enable_checkpointing("500ms").set_checkpoint_dir(folder / "checkpoints").set_parallelism(2)
        sales = env.from_source(FileSource.parquet(str(source)).files_per_batch(2), name="sales")
        totals = sales.key_by("key").aggregate(F.count("*").alias("sales"), F.sum("amount").alias("amount"))
        totals.uid("totals").sink_to(FileSink.parquet(str(output)))
        env.execute("totals")
        published = env.spark.read.parquet(str(output)).groupBy("key").agg(F.max("sales"), F.max("amount")).collect()
        batch = env.spark.read.parquet(str(source)).groupBy("key").agg(F.count("*"), F.sum("amount")).collect()
    streamed, expected = sorted(map(tuple, published)), sorted(map(tuple, batch))
    print(
        f"{len(streamed)} keys, equal to the batch result" if streamed == expected else f"{streamed} is not {expected}"
    )
    return int(streamed != expected)


if __name__ == "__main__":
    sys.exit(run_totals_job(sys.argv[1], Path(sys.argv[2])))
