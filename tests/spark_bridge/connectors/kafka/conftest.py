"""A broker for the tests of this folder; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from benchmarks.connectors.broker import ApacheKafka, Broker, program, running_broker
from tests.spark_bridge.connectors.kafka.gate import Gate, running_gate


@pytest.fixture(scope="package")
def _gate() -> Iterator[Gate]:
    with running_gate() as running:
        yield running


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory, _gate: Gate) -> Iterator[Broker]:
    listeners = (_gate.listener,) if isinstance(program(), ApacheKafka) else ()
    with running_broker(tmp_path_factory.mktemp("kafka") / "data", listeners=listeners) as running:
        yield running


@pytest.fixture(scope="package")
def kafka(broker: Broker) -> Broker:
    """The broker, for what not every one can do."""
    if not isinstance(broker.program, ApacheKafka):
        pytest.skip(f"{broker.program.name} cannot do this: it needs Apache Kafka, which scripts/kafka.sh fetches")
    return broker


@pytest.fixture
def gate(kafka: Broker, _gate: Gate) -> Gate:
    """The way to the broker on which requests can be held."""
    return _gate


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"
