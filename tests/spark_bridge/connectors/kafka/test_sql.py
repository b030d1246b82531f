"""Tests Kafka tables in SQL, from topic to topic."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import JobClient, StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_records_are_copied_from_topic_to_topic(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.create(f"{topic}-out")
    sold = [{"item": f"item {n % 3}", "pieces": n} for n in range(30)]
    broker.send(topic, *(json.dumps(each).encode() for each in sold), b"no json")
    servers = f"kafka.bootstrap.servers '{broker.address}', format 'json'"

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.execute_sql(
            "CREATE TABLE sold (item STRING, pieces INT, timestamp TIMESTAMP, WATERMARK FOR timestamp AS timestamp)"
            f" USING kafka OPTIONS ({servers}, topic '{topic}', metadata 'timestamp', start_from 'earliest',"
            " bounded 'latest', on_corrupt 'skip', kafka.client.id 'shop')"
        )
        env.execute_sql(
            f"CREATE TABLE many (item STRING, pieces BIGINT) USING kafka OPTIONS ({servers}, topic '{topic}-out')"
        )
        client = env.execute_sql("INSERT INTO many SELECT upper(item), pieces FROM sold WHERE pieces >= 20")
        assert isinstance(client, JobClient)
        client.wait(timeout=60)

    assert sorted(json.loads(value)["pieces"] for value in broker.values(f"{topic}-out")) == [*range(20, 30)]
    assert json.loads(broker.values(f"{topic}-out")[0])["item"].startswith("ITEM ")
