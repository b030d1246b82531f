"""Tests that an error is attributed to its operator if Spark knows the operator, and otherwise to all candidates."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.diagnosis.origins import Derivation, Origins
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.call_site import CallSite
from tests.spark_bridge.harness import Harness, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORD = "concat('no ', key)"


def rate(key: int) -> int:
    raise ValueError(f"no rate for {key}")


def failure_of_source(harness: Harness, *codes: OperatorCode) -> SerializedThrowable:
    """Return the failure of a source followed by these operators; the n-th one is defined on line n of app.py."""
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertex = harness.source(*codes)
    for line, (operator, code) in enumerate(zip(vertex.operators[1:], codes, strict=True), 1):
        harness.registry.bind(operator.ref.uid, code, call_site=CallSite(file="app.py", line=line))
    source = harness.begin(vertex).open()
    source.start_read(harness.splits(vertex))
    return source.expect_failure().cause


def failure_lines(harness: Harness, *codes: OperatorCode) -> list[str]:
    return failure_of_source(harness, *codes).message.splitlines()


def where(condition: str) -> OperatorCode:
    return transform(lambda rows: rows.where(condition))


def test_a_cast_in_an_aggregate_is_not_attributed_to_an_earlier_function(harness: Harness) -> None:
    aggregate = LocalAggregateCode(of=harness.windows(F.sum(F.expr(WORD)).alias("sum")))

    first, *lines = failure_lines(harness, where("amount > 0"), aggregate)

    assert first.startswith("operator 'source-local-window-aggregate-2' (app.py:2): [CAST_INVALID_INPUT]")
    assert lines == ['  File "app.py", line 2, in source-local-window-aggregate-2']


def test_an_sql_expression_is_attributed_to_its_operator(harness: Harness) -> None:
    worded = transform(lambda rows: rows.withColumn("word", F.expr(WORD)))

    first, *lines = failure_lines(harness, where("amount > 0"), worded, where("word > 5"), harness.sink())

    assert first.startswith("operator 'source-stateless-3' (app.py:3): [CAST_INVALID_INPUT]")
    assert lines == ['  File "app.py", line 3, in source-stateless-3']


def test_equal_sql_in_two_operators_names_both_as_candidates(harness: Harness) -> None:
    divided = transform(lambda rows: rows.selectExpr("*", "amount / (amount - key) AS x"))
    renamed = transform(lambda rows: rows.selectExpr("key", "amount / (amount - key) AS x"))

    first, *lines = failure_lines(harness, where("amount > 0"), divided, renamed, harness.sink())

    assert first.startswith("stage 1 of 'source-source-0 -> ")
    assert lines == [
        "one of these operators has failed, Spark does not report which:",
        '  File "app.py", line 2, in source-stateless-2',
        '  File "app.py", line 3, in source-stateless-3',
    ]


def test_a_failing_function_in_a_worker_is_identified_by_name(harness: Harness) -> None:
    rated = transform(lambda rows: rows.withColumn("rate", F.udf(rate, "long")("key")))

    first, above, *_, frame, line = failure_lines(harness, where("amount > 0"), rated, harness.sink())

    assert first == "operator 'source-stateless-2' (app.py:2): no rate for 1"
    assert above == '  File "app.py", line 2, in source-stateless-2'
    assert (frame.endswith("in rate"), line) == (True, '    raise ValueError(f"no rate for {key}")')


def test_an_overwritten_static_table_is_attributed_to_its_join(
    harness: Harness, spark: SparkSession, tmp_path: Path
) -> None:
    table = str(tmp_path / "static table")
    spark.range(3).withColumnRenamed("id", "key").coalesce(1).write.parquet(table)
    static = spark.read.parquet(table)
    shutil.rmtree(table)

    first, *_ = failure_lines(
        harness, where("amount > 0"), transform(lambda rows: rows.join(static, "key")), harness.sink()
    )

    assert first.startswith(f"operator 'source-stateless-2' (app.py:2): cannot read {table}/part-")


def test_a_broken_source_file_is_attributed_to_the_source(harness: Harness) -> None:
    write_rows(harness.input / "0.parquet", [(1, 1, 0.0)])
    vertex = harness.source(where("amount > 0"), harness.sink())
    splits = harness.splits(vertex)
    source = harness.begin(vertex).open()
    (harness.input / "0.parquet").write_bytes(b"no parquet")

    source.start_read(splits)

    message = source.expect_failure().cause.message
    assert message.startswith(f"operator 'source-source-0': cannot read {harness.input}/0.parquet")


def test_an_error_without_an_origin_matches_no_operator(spark: SparkSession) -> None:
    origins = Origins()
    rows = spark.range(1)
    origins.record("doubled", Derivation(before=(rows,), after=(rows.selectExpr("id * 2 AS id"),)))

    assert origins.operators_named_by(ValueError("no")) == []
    assert origins.readers_of("/nowhere") == []


def raised_by(rows: DataFrame, action: Callable[[DataFrame], object] = DataFrame.collect) -> Exception:
    try:
        action(rows)
    except Exception as raised:  # noqa: BLE001 - whatever it is
        return raised
    raise AssertionError("nothing was raised")


def test_an_uncomputable_key_is_attributed_to_its_key_by(spark: SparkSession) -> None:
    origins = Origins()
    rows = spark.range(1).selectExpr("'abc' AS word").localCheckpoint()
    origins.record("words", Derivation(before=(), after=(rows,)))
    origins.record("keys", Derivation(before=(rows,), after=(rows,), columns=(F.expr("CAST(word AS INT)"),)))

    assert origins.operators_named_by(raised_by(rows.repartition(2, F.expr("CAST(word AS INT)")))) == ["keys"]
