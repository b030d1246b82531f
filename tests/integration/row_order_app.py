"""Counts the rows of a key that arrived after later rows. Run as a program, it uses two executors.

Argument: a working folder. Prints the counts as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from flykka import DataStream, FileSink, StreamExecutionEnvironment

MASTER = "local-cluster[2,1,1024]"
KEYS = 5


def followed(row: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the later row, and how many rows of its key were overtaken before it."""
    return {**after, "rows": row["rows"] + 1, "overtaken": row["overtaken"] + (after["id"] < row["id"])}


def overtaken_rows(env: StreamExecutionEnvironment, ids: DataStream, folder: Path) -> list[tuple[int, int]]:
    """Run the program on a stream of ascending ids, and return each key's number of rows and of overtaken rows."""
    rows = ids.select("id", (F.col("id") % KEYS).alias("key"), F.lit(1).alias("rows"), F.lit(0).alias("overtaken"))
    # Rows of two subtasks are exchanged.
    rows.key_by("key").reduce(followed).set_parallelism(2).sink_to(FileSink.json(str(folder / "out")))
    env.set_checkpoint_dir(str(folder / "checkpoints")).execute("row order")
    results = env.spark.read.json(str(folder / "out")).groupBy("key").agg(F.max("rows"), F.max("overtaken"))
    return [(rows, overtaken) for _, rows, overtaken in sorted(map(tuple, results.collect()))]


if __name__ == "__main__":
    with StreamExecutionEnvironment.get_execution_environment(MASTER, slots_per_task_manager=2) as on_two:
        numbers = on_two.from_dataframe(on_two.spark.range(0, 4000, 1, 8))
        print(json.dumps(overtaken_rows(on_two, numbers, Path(sys.argv[1]))))
