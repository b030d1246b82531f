"""A server for the tests in this folder; each test has its own database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from tests.spark_bridge.connectors.postgres.server import Database, Server, running_server
from tests.spark_bridge.connectors.postgres.writing import Writing
from tests.spark_bridge.sink_contexts import sink_context


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    created = server.create_database()
    yield created
    created.close()
    server.drop_slots(created)


@pytest.fixture
def writing(spark: SparkSession, tmp_path: object) -> Callable[[PostgresSink], Writing]:
    numbers = count()

    def make(sink: PostgresSink) -> Writing:
        context = sink_context(spark, f"{tmp_path}/staged", uid="sink", attempt_number=next(numbers))
        return Writing(sink.writer(context))

    return make


@pytest.fixture
def table(database: Database) -> PostgresCdcSource:
    database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text)")
    return PostgresCdcSource.of_table(database.conninfo, "names", slot=f"slot_{database.name}")
