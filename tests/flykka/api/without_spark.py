"""An environment that is used only for its settings: it has no Spark session and starts nothing."""

from __future__ import annotations

from typing import cast

from flykka.api.environment import StreamExecutionEnvironment
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.spark_bridge.program.prototype import SparkSession


def without_spark() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(cast(SparkSession, None), ClusterSettings())
