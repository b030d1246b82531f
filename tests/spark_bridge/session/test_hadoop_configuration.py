"""Tests that Hadoop's settings are sent to tasks without their sources."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.session.jvm_classes import jvm_class
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark


def settings(configuration: Any) -> dict[str, str]:
    matches = configuration.getValByRegex(r"^(ipc|mapreduce\.map)\.")
    return {str(key): str(matches[key]) for key in matches}


def test_hadoop_settings_of_jobs_have_no_sources_and_equal_values(spark: SparkSession) -> None:
    fresh = jvm_class(spark.sparkContext, "org.apache.hadoop.conf.Configuration")()

    ours = engine_session(spark)._jsparkSession.sessionState().newHadoopConf()

    assert fresh.getPropertySources("ipc.client.idlethreshold") is not None
    assert ours.getPropertySources("ipc.client.idlethreshold") is None
    assert len(settings(fresh)) > 10
    assert settings(ours) == settings(fresh)
