"""The queries of Nexmark as SQL on streams: all in one job, and each gives what the batch gives of the same events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.nexmark.queries import QUERIES, create_stream_views, create_views, digest, newest, sink, text, written
from examples.nexmark.source import EVENT_TIME, WATERMARK_DELAY, Events, nexmark_source
from flykka import StreamExecutionEnvironment, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

EVENTS = 120_000
"""Of twelve seconds, in batches that end within windows."""


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Callable[[str], DataFrame]:
    """Runs a query as a batch."""
    create_views(Events(1)(spark.range(EVENTS).withColumnRenamed("id", "index")).cache())
    return lambda query: spark.sql(text(query))


@pytest.fixture(scope="module")
def output(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the queries have written, in folders of their names."""
    folder: Path = tmp_path_factory.mktemp("nexmark")
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_parallelism(2)
        env.enable_checkpointing("1s").set_checkpoint_dir(str(folder / "checkpoints"))
        create_stream_views(env, env.from_source(nexmark_source(EVENTS, rows_per_batch=35_000), watermarks))
        for query in QUERIES:
            env.sql(text(query)).sink_to(sink(query, str(folder / query)))
        env.execute()
    return folder


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_a_stream_gives_what_the_batch_gives(
    spark: SparkSession, batch: Callable[[str], DataFrame], output: Path, query: str
) -> None:
    expected = batch(query)

    found = newest(query, written(query, str(output / query), spark, expected.schema))

    assert digest(found) == digest(expected), found.exceptAll(expected).take(3)
