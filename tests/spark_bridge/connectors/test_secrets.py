"""Tests that connectors mask their secret settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.runtime.secrets import masked
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.delta.source import DeltaSource
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.connectors.iceberg import IcebergSink
from flykka.spark_bridge.connectors.kafka.sink import KafkaSink
from flykka.spark_bridge.connectors.kafka.source import KafkaSource
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink

MAKE: dict[str, Callable[[str], object]] = {
    "kafka source": lambda secret: KafkaSource.of_topics("localhost:1", "orders", sasl_password=secret),
    "kafka sink": lambda secret: KafkaSink.to_topic("localhost:1", "orders", sasl_password=secret),
    "delta source": lambda secret: DeltaSource.of_path("s3://b/t").storage_options(AWS_SECRET_ACCESS_KEY=secret),
    "delta sink": lambda secret: DeltaSink.append("s3://b/t").storage_options(AWS_SECRET_ACCESS_KEY=secret),
    "iceberg sink": lambda secret: IcebergSink.append("shop.orders", **{"s3.secret-access-key": secret}),
    "file source": lambda secret: FileSource.parquet("memory://b/orders").options(secret=secret),
    "postgres sink": lambda secret: PostgresSink.append(f"host=db user=u password={secret}", "orders"),
    "postgres source": lambda secret: PostgresCdcSource.of_table(f"postgresql://u:{secret}@db/s", "o", slot="s"),
}


@pytest.mark.parametrize("what", MAKE)
def test_the_secret_of_a_connector_is_masked(what: str) -> None:
    secret = f"secret-of-the-{what.replace(' ', '-')}"

    MAKE[what](secret)

    assert masked(f"refused: {secret}") == "refused: ***"
