"""Passwords and certificates: the right ones work, and wrong ones are refused at once, without being printed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.connectors.broker import ApacheKafka, Broker, Listener, free_port, program, running_broker
from flykka import KafkaSink, KafkaSource, OffsetsInitializer
from flykka.connectors import SinkError, SourceError
from flykka.runtime.secrets import masked
from flykka.spark_bridge.connectors.kafka.client import topics_there
from flykka.spark_bridge.connectors.kafka.publishing import PublishTransaction
from tests.spark_bridge.connectors.kafka.records import discover_splits, record_values

pytestmark = pytest.mark.slow

USER, PASSWORD, WRONG = "alice", "open-sesame-42", "barley-4711"
PROMPT_S = 15.0
"""So long librdkafka goes on in vain by default: twice as long."""
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Secured:
    """A broker that takes passwords at some ports, and what its certificate is compared with."""

    broker: Broker
    listeners: dict[str, Listener]
    certificate: Path

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.listeners[listener].port}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if not isinstance(program(), ApacheKafka):
        pytest.skip(f"{program().name} has no passwords and no TLS: it needs Apache Kafka")
    folder = tmp_path_factory.mktemp("secured")
    store, certificate = _certificate(folder)
    protocols = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "BOTH": "SASL_SSL"}
    listeners = {name: Listener(name=name, port=free_port(), protocol=each) for name, each in protocols.items()}
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }
    for name in ("sasl", "both"):
        plain = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = plain
        settings[f"listener.name.{name}.scram-sha-512.sasl.jaas.config"] = f"{_JAAS}.scram.ScramLoginModule required;"
    with running_broker(folder / "data", listeners=tuple(listeners.values()), settings=settings) as broker:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = broker.admin()
        for done in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, info, PASSWORD.encode())]
        ).values():
            done.result()
        yield Secured(broker, listeners, certificate)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A store with a key and a certificate of 127.0.0.1, and the certificate alone."""
    home = os.environ.get("JAVA_HOME")
    keytool = str(Path(home, "bin", "keytool")) if home else "keytool"
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    of_store = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    name = ["-keyalg", "EC", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
    subprocess.run([keytool, "-genkeypair", *of_store, *name], check=True, capture_output=True)
    export = [keytool, "-exportcert", "-rfc", *of_store, "-file", str(certificate)]
    subprocess.run(export, check=True, capture_output=True)
    return store, certificate


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
def test_records_are_written_and_read(secured: Secured, topic: str, listener: str, properties: dict[str, str]) -> None:
    secured.broker.create(topic)
    given = properties | ({} if listener == "SASL" else {"ssl_ca_location": str(secured.certificate)})
    sink = KafkaSink.to_topic(secured.address(listener), topic, **given)
    work = PublishTransaction(cluster=sink.cluster, topic=topic, writer=topic, checkpoint_id=1)
    source = KafkaSource.of_topics(secured.address(listener), topic, **given)

    list(work([pa.RecordBatch.from_pylist([{"value": b"1"}, {"value": b"2"}])]))

    assert topic in topics_there(sink.cluster)
    assert record_values(source.bounded(OffsetsInitializer.latest())) == [b"1", b"2"]


@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.long)])
def test_a_wrong_password_is_refused_at_once_and_not_printed(
    secured: Secured, topic: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = sasl(mechanism, WRONG)
    source = KafkaSource.of_topics(secured.address("SASL"), topic, **given)
    sink = KafkaSink.to_topic(secured.address("SASL"), topic, **given)
    begun = time.monotonic()

    with pytest.raises(SourceError, match=r"(?i)Kafka at 127.*authentication failed") as of_source:
        discover_splits(source)
    with pytest.raises(SinkError, match=r"(?i)Kafka at 127.*authentication failed") as of_sink:
        topics_there(sink.cluster)

    assert time.monotonic() - begun < 2 * PROMPT_S
    told = "\n".join(map(str, (of_source.getrepr(), of_sink.getrepr(), caplog.text, source, sink)))
    assert WRONG not in told
    assert WRONG not in f"{source!r} {sink!r} {source.cluster!r}"
    assert WRONG not in masked(f"what a log may say: {given}")


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(secured: Secured, topic: str) -> None:
    source = KafkaSource.of_topics(secured.address("TLS"), topic, security_protocol="SSL")
    begun = time.monotonic()

    with pytest.raises(SourceError, match=r"Kafka at 127.*certificate verify failed.*ssl\.ca\.location"):
        discover_splits(source)

    assert time.monotonic() - begun < PROMPT_S
