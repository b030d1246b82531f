"""Tests Nexmark as DataStream programs in one job: each result equals that of the program's SQL on the same events as a
batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.nexmark.__main__ import main
from examples.nexmark.programs import PROGRAMS, Views
from examples.nexmark.queries import QUERIES, create_views, digest, newest, text
from examples.nexmark.source import EVENT_TIME, WATERMARK_DELAY, Events, nexmark_source
from flykka import FileSink, StreamExecutionEnvironment, WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

EVENTS = 120_000
"""Twelve seconds of events, in batches that end within windows."""


@pytest.fixture(scope="module")
def batch_query(spark: SparkSession) -> Callable[[str], DataFrame]:
    create_views(Events(1)(spark.range(EVENTS).withColumnRenamed("id", "index")).cache())
    return lambda query: spark.sql(text(query))


@pytest.fixture(scope="module", params=[1, 2], ids=lambda parallelism: f"parallelism-{parallelism}")
def output_of_query(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], DataFrame]:
    """Returns the programs' output by the names of their queries."""
    folder: Path = tmp_path_factory.mktemp("nexmark")
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY).with_timestamp_column(EVENT_TIME)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_parallelism(request.param)
        env.enable_checkpointing("1s").set_checkpoint_dir(str(folder / "checkpoints"))
        views = Views.of(env.from_source(nexmark_source(EVENTS, rows_per_batch=35_000), watermarks), env.spark)
        for query, program in PROGRAMS.items():
            program(views).sink_to(FileSink.parquet(str(folder / query)))
        env.execute()
    return lambda query: spark.read.parquet(str(folder / query))


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("query", PROGRAMS)
def test_a_program_returns_the_same_rows_as_its_sql(
    batch_query: Callable[[str], DataFrame], output_of_query: Callable[[str], DataFrame], query: str
) -> None:
    expected = batch_query(query)

    rows = newest(query, output_of_query(query))

    assert rows.columns == expected.columns
    assert digest(rows) == digest(expected), rows.exceptAll(expected).take(3)


def test_at_least_a_third_of_the_queries_are_programs() -> None:
    assert set(PROGRAMS) <= set(QUERIES)
    assert 3 * len(PROGRAMS) >= len(QUERIES)


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_a_program_runs_by_name(spark: SparkSession, tmp_path: Path) -> None:
    main(["q12", str(tmp_path / "counts"), "--events", "20000"])

    counts = spark.read.parquet(str(tmp_path / "counts"))
    assert counts.agg({"bid_count": "sum"}).first() == (20_000 * 46 // 50,)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["q12", "counts"], "need a rate: --events-per-second"), (["q3", "counts"], "invalid choice: 'q3'")],
)
def test_unsupported_queries_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert complaint in capsys.readouterr().err
