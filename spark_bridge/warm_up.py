"""Warms Spark up while there is no job, for example in a driver that waits for another driver to end.

Without that, Spark takes ten seconds for its first batch: it loads classes, compiles plans and starts Python.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.rows.files import read_parquet, write_files
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import Blocks, counted
from flykka.spark_bridge.session.session import engine_session, has_one_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("flykka.spark_bridge")

_ROUNDS = 4


def warm_up_in_background(session: SparkSession) -> None:
    Thread(target=warm_up, args=(session,), name="flykka-warm-up", daemon=True).start()


def warm_up(session: SparkSession) -> None:
    """Run some stages if all executors are on this machine. Does nothing in other sessions."""
    if not has_one_machine(session):
        return
    try:
        with TemporaryFolder("warm-up") as folder:
            engine = engine_session(session)
            for number in range(_ROUNDS):
                _run_stages(engine, folder / str(number))
    except (Py4JError, PySparkException, OSError) as failed:
        # The session was stopped in the meantime, or has another problem that a job will report better.
        logger.info("the session was not warmed up: %s", failed)


def _run_stages(engine: SparkSession, folder: Path) -> None:
    filesystem = FileSystem(engine)
    rows = engine.range(0, 1_000, numPartitions=1).select(
        (F.col("id") % 10).alias("key"), F.current_timestamp().alias("at")
    )
    write_files(filesystem, rows, str(folder / "in"))
    of_keys = (
        read_parquet(engine, [str(folder / "in")], rows.schema)
        .groupBy("key")
        .agg(F.count("*"), F.max("at").alias("at"))
    )
    _, observed = counted(of_keys, {"last_micros": F.max(F.unix_micros("at"))})
    blocks = Blocks(observed.localCheckpoint(eager=True), engine)
    # Pickled by value, because workers may not find this module.
    through_python = blocks.frame.mapInArrow(lambda batches: batches, blocks.frame.schema)
    write_files(filesystem, through_python.coalesce(1), str(folder / "out"))
    blocks.free()
