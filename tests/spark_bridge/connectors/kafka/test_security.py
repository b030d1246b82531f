"""Tests that correct passwords and certificates work, and that wrong ones are refused at once without being printed."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.connectors.broker import Broker
from flykka import KafkaSink, KafkaSource, OffsetsInitializer
from flykka.connectors import SinkError, SourceError
from flykka.runtime.secrets import masked
from flykka.spark_bridge.connectors.kafka.client import topics_there
from flykka.spark_bridge.connectors.kafka.publishing import PublishKafkaTransaction
from tests.spark_bridge.connectors.kafka.records import discover_splits, record_values
from tests.spark_bridge.connectors.kafka.secured_ports import PASSWORD, USER, SecuredPorts

pytestmark = pytest.mark.slow

WRONG = "barley-4711"
PROMPT_S = 15.0
"""A time limit in seconds. librdkafka's default limit is twice as long."""


@dataclass(frozen=True)
class Secured:
    """A broker that requires passwords on some ports, and the CA file for the broker's certificate."""

    broker: Broker
    ports: SecuredPorts
    certificate: Path

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports.listeners[listener].port}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, kafka: Broker, ports: SecuredPorts) -> Secured:
    certificate = tmp_path_factory.mktemp("certificate") / "broker.pem"
    certificate.write_text(ssl.get_server_certificate(("127.0.0.1", ports.listeners["TLS"].port)))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = kafka.admin()
    for done in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(USER, info, PASSWORD.encode())]
    ).values():
        done.result()
    return Secured(kafka, ports, certificate)


def sasl(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
        "sasl_password": password,
    }


@pytest.mark.parametrize(
    ("listener", "properties"),
    [
        pytest.param("SASL", sasl("PLAIN"), id="PLAIN"),
        pytest.param("SASL", sasl("SCRAM-SHA-512"), id="SCRAM"),
        pytest.param("TLS", {"security_protocol": "SSL"}, id="TLS"),
        pytest.param("BOTH", sasl("SCRAM-SHA-512") | {"security_protocol": "SASL_SSL"}, id="SCRAM and TLS"),
    ],
)
def test_records_are_written_and_read_over_secured_ports(
    secured: Secured, topic: str, listener: str, properties: dict[str, str]
) -> None:
    secured.broker.create(topic)
    settings = properties | ({} if listener == "SASL" else {"ssl_ca_location": str(secured.certificate)})
    sink = KafkaSink.to_topic(secured.address(listener), topic, **settings)
    work = PublishKafkaTransaction(cluster=sink.cluster, topic=topic, writer=topic, checkpoint_id=1)
    source = KafkaSource.of_topics(secured.address(listener), topic, **settings)

    list(work([pa.RecordBatch.from_pylist([{"value": b"1"}, {"value": b"2"}])]))

    assert topic in topics_there(sink.cluster)
    assert record_values(source.bounded(OffsetsInitializer.latest())) == [b"1", b"2"]


@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.long)])
def test_a_wrong_password_is_refused_at_once_and_not_printed(
    secured: Secured, topic: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = sasl(mechanism, WRONG)
    source = KafkaSource.of_topics(secured.address("SASL"), topic, **settings)
    sink = KafkaSink.to_topic(secured.address("SASL"), topic, **settings)
    begun = time.monotonic()

    with pytest.raises(SourceError, match=r"(?i)Kafka at 127.*authentication failed") as of_source:
        discover_splits(source)
    with pytest.raises(SinkError, match=r"(?i)Kafka at 127.*authentication failed") as of_sink:
        topics_there(sink.cluster)

    assert time.monotonic() - begun < 2 * PROMPT_S
    texts = "\n".join(map(str, (of_source.getrepr(), of_sink.getrepr(), caplog.text, source, sink)))
    assert WRONG not in texts
    assert WRONG not in f"{source!r} {sink!r} {source.cluster!r}"
    assert WRONG not in masked(f"what a log may say: {settings}")


def test_an_untrusted_certificate_is_refused_at_once(secured: Secured, topic: str) -> None:
    source = KafkaSource.of_topics(secured.address("TLS"), topic, security_protocol="SSL")
    begun = time.monotonic()

    with pytest.raises(SourceError, match=r"Kafka at 127.*certificate verify failed.*ssl\.ca\.location"):
        discover_splits(source)

    assert time.monotonic() - begun < PROMPT_S
