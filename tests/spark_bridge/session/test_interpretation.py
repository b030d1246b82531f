"""Tests that plans of few rows are interpreted, and that stored rows belong to the engine's session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.spark_bridge.rows.materialise import materialise
from flykka.spark_bridge.session.attempt_scope import AttemptScope
from flykka.spark_bridge.session.interpretation import in_session, interpreted
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark


def test_rows_derived_from_interpreted_rows_are_interpreted(spark: SparkSession) -> None:
    engine = engine_session(spark)
    engine.conf.set("spark.sql.codegen.wholeStage", "true")
    engine.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    rows = engine.range(3).withColumn("twice", F.col("id") * 2)

    plans = [
        each.where("twice > 0")._jdf.queryExecution().executedPlan().toString() for each in (rows, interpreted(rows))
    ]

    assert [plan.count("*(1)") > 0 for plan in plans] == [True, False]
    assert interpreted(rows).where("twice > 0").collect() == [(1, 2), (2, 4)]


def test_stored_rows_belong_to_the_session_of_the_engine(spark: SparkSession) -> None:
    engine = engine_session(spark)
    scope = AttemptScope(engine, ExecutionAttemptId("attempt"), pool="pool", label="(1/1)#0")

    stored = materialise(scope, interpreted(engine.range(3)), {})

    assert stored.rows == 3
    assert stored.frame.sparkSession is engine
    assert in_session(stored.frame, engine) is stored.frame
    stored.blocks.free()
