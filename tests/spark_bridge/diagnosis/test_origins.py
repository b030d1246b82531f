"""Tests that an error is attributed to its operator if Spark knows it, and otherwise to all candidates."""

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
from tests.spark_bridge.laboratory import Laboratory, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORD = "concat('no ', key)"


def rate(key: int) -> int:
    raise ValueError(f"no rate for {key}")


def failure_of_source(laboratory: Laboratory, *codes: OperatorCode) -> SerializedThrowable:
    """Return the failure of a source followed by these operators, each defined on the line of app.py with its index."""
    write_rows(laboratory.input / "0.parquet", [(1, 1, 0.0)])
    vertex = laboratory.source(*codes)
    for line, (operator, code) in enumerate(zip(vertex.operators[1:], codes, strict=True), 1):
        laboratory.registry.bind(operator.ref.uid, code, call_site=CallSite(file="app.py", line=line))
    source = laboratory.begin(vertex).open()
    source.tell_read(laboratory.splits(vertex))
    return source.expect_failure().cause


def failure_lines(laboratory: Laboratory, *codes: OperatorCode) -> list[str]:
    return failure_of_source(laboratory, *codes).message.splitlines()


def where(condition: str) -> OperatorCode:
    return transform(lambda rows: rows.where(condition))


def test_a_cast_in_an_aggregate_is_not_attributed_to_an_earlier_function(laboratory: Laboratory) -> None:
    aggregate = LocalAggregateCode(of=laboratory.windows(F.sum(F.expr(WORD)).alias("sum")))

    first, *lines = failure_lines(laboratory, where("amount > 0"), aggregate)

    assert first.startswith("operator 'source-local-window-aggregate-2' (app.py:2): [CAST_INVALID_INPUT]")
    assert lines == ['  File "app.py", line 2, in source-local-window-aggregate-2']


def test_an_sql_expression_is_attributed_to_its_operator(laboratory: Laboratory) -> None:
    worded = transform(lambda rows: rows.withColumn("word", F.expr(WORD)))

    first, *lines = failure_lines(laboratory, where("amount > 0"), worded, where("word > 5"), laboratory.sink())

    assert first.startswith("operator 'source-stateless-3' (app.py:3): [CAST_INVALID_INPUT]")
    assert lines == ['  File "app.py", line 3, in source-stateless-3']


def test_equal_sql_in_two_operators_makes_both_candidates(laboratory: Laboratory) -> None:
    divided = transform(lambda rows: rows.selectExpr("*", "amount / (amount - key) AS x"))
    renamed = transform(lambda rows: rows.selectExpr("key", "amount / (amount - key) AS x"))

    first, *lines = failure_lines(laboratory, where("amount > 0"), divided, renamed, laboratory.sink())

    assert first.startswith("stage 1 of 'source-source-0 -> ")
    assert lines == [
        "one of these operators has failed, Spark does not report which:",
        '  File "app.py", line 2, in source-stateless-2',
        '  File "app.py", line 3, in source-stateless-3',
    ]


def test_a_failing_function_in_a_worker_is_identified_by_name(laboratory: Laboratory) -> None:
    rated = transform(lambda rows: rows.withColumn("rate", F.udf(rate, "long")("key")))

    first, above, *_, frame, line = failure_lines(laboratory, where("amount > 0"), rated, laboratory.sink())

    assert first == "operator 'source-stateless-2' (app.py:2): no rate for 1"
    assert above == '  File "app.py", line 2, in source-stateless-2'
    assert (frame.endswith("in rate"), line) == (True, '    raise ValueError(f"no rate for {key}")')


def test_an_overwritten_static_table_is_attributed_to_its_join(
    laboratory: Laboratory, spark: SparkSession, tmp_path: Path
) -> None:
    table = str(tmp_path / "static table")
    spark.range(3).withColumnRenamed("id", "key").coalesce(1).write.parquet(table)
    static = spark.read.parquet(table)
    shutil.rmtree(table)

    first, *_ = failure_lines(
        laboratory, where("amount > 0"), transform(lambda rows: rows.join(static, "key")), laboratory.sink()
    )

    assert first.startswith(f"operator 'source-stateless-2' (app.py:2): cannot read {table}/part-")


def test_a_broken_source_file_is_attributed_to_the_source(laboratory: Laboratory) -> None:
    write_rows(laboratory.input / "0.parquet", [(1, 1, 0.0)])
    vertex = laboratory.source(where("amount > 0"), laboratory.sink())
    splits = laboratory.splits(vertex)
    source = laboratory.begin(vertex).open()
    (laboratory.input / "0.parquet").write_bytes(b"no parquet")

    source.tell_read(splits)

    message = source.expect_failure().cause.message
    assert message.startswith(f"operator 'source-source-0': cannot read {laboratory.input}/0.parquet")


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
