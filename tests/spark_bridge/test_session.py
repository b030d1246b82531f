"""The session: what is set on it, and what is left as it was found."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.session import engine_session, spark_session

pytestmark = pytest.mark.spark

FRESH = """
import os, signal
before = signal.getsignal(signal.SIGINT)
from flykka.spark_bridge.session import spark_session
session = spark_session("local[1]")
assert signal.getsignal(signal.SIGINT) is before, "Spark's handler is in place"
assert session.conf.get("spark.sql.session.timeZone") == "UTC"
assert session.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
assert session.sparkContext.uiWebUrl is None
assert os.environ["PYSPARK_PYTHON"] == os.sys.executable
session.stop()
print("as found")
"""


def test_a_session_that_is_there_is_adopted_unchanged(spark: SparkSession) -> None:
    before = dict(spark.conf.getAll)

    adopted = spark_session("local[7]", config={"spark.sql.session.timeZone": "Asia/Tokyo"})
    engine = engine_session(adopted)

    assert adopted.sparkContext is spark.sparkContext
    assert engine.sparkContext is spark.sparkContext
    assert dict(spark.conf.getAll) == before
    assert engine.conf.get("spark.sql.adaptive.enabled") == "false"


def test_an_engine_session_sees_the_users_views_and_settings(spark: SparkSession) -> None:
    user = spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.range(3).createOrReplaceTempView("three")

    engine = engine_session(user)

    assert engine.table("three").count() == 3
    assert engine.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_what_is_no_classic_session_is_refused() -> None:
    with pytest.raises(SessionError, match="classic Spark session"):
        engine_session(object())  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_new_session_leaves_the_interrupt_key_alone() -> None:
    ran = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, check=False)

    assert ran.stdout.strip().endswith("as found"), ran.stderr
