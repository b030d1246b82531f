"""A broker for the tests in this folder; each test has its own topics."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from benchmarks.connectors.broker import ApacheKafka, Broker, program, running_broker
from tests.spark_bridge.connectors.kafka.gate import Gate, running_gate
from tests.spark_bridge.connectors.kafka.secured_ports import SecuredPorts, secured_ports


@pytest.fixture(scope="package")
def _gate() -> Iterator[Gate]:
    with running_gate() as running:
        yield running


@pytest.fixture(scope="package")
def ports(tmp_path_factory: pytest.TempPathFactory) -> SecuredPorts:
    """The secured ports of the broker; a broker other than Apache Kafka has none."""
    if not isinstance(program(), ApacheKafka):
        return SecuredPorts({}, {})
    return secured_ports(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory, _gate: Gate, ports: SecuredPorts) -> Iterator[Broker]:
    listeners = (_gate.listener, *ports.listeners.values()) if ports.listeners else ()
    folder = tmp_path_factory.mktemp("kafka") / "data"
    with running_broker(folder, listeners=listeners, settings=ports.settings) as running:
        yield running


@pytest.fixture(scope="package")
def kafka(broker: Broker) -> Broker:
    """The broker, for tests of features that some brokers lack; these tests are skipped on such brokers."""
    if not isinstance(broker.program, ApacheKafka):
        pytest.skip(f"{broker.program.name} cannot do this: it needs Apache Kafka, which scripts/kafka.sh fetches")
    return broker


@pytest.fixture
def gate(kafka: Broker, _gate: Gate) -> Gate:
    return _gate


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"
