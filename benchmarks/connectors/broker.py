"""A real broker in a process that can be killed and restarted: Apache Kafka, or noida-db if Kafka is not available."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

_DEADLINE_S = 60.0

_KAFKA_SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka.sh"
_CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={advertised}
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.cleaner.backoff.ms=100
group.initial.rebalance.delay.ms=0
{settings}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A port of a broker, and the port that it advertises to clients, which differs if they connect through a proxy."""

    name: str
    port: int
    protocol: str = "PLAINTEXT"
    advertised_port: int | None = None


class NoBrokerError(Exception):
    """There is no broker program to start."""


class Program(ABC):
    """The program of a broker. If it `forgets`, it loses the records of the last second when it is killed."""

    name: ClassVar[str]
    forgets: ClassVar[bool]

    @abstractmethod
    def command(self, data: Path, listeners: Sequence[Listener], settings: Mapping[str, str]) -> list[str]:
        """Return the command that serves clients on ports of the loopback interface, with its data in a folder."""


class ApacheKafka(Program):
    """Apache Kafka as one process, which is broker and controller (KRaft)."""

    name = "Apache Kafka 4.1.2"
    forgets = False

    def __init__(self, jars: Path) -> None:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        options = os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseSerialGC").split()
        self._java = [java, "-Xmx512m", *options, "-cp", f"{jars}/*"]

    def command(self, data: Path, listeners: Sequence[Listener], settings: Mapping[str, str]) -> list[str]:
        """Format the folder if it is new, and return the command."""
        configuration = data.with_name(f"{data.name}.properties")
        if not configuration.exists():
            configuration.write_text(
                _CONFIGURATION.format(
                    controller=free_port(),
                    listeners=",".join(f"{each.name}://127.0.0.1:{each.port}" for each in listeners),
                    advertised=",".join(
                        f"{each.name}://127.0.0.1:{each.advertised_port or each.port}" for each in listeners
                    ),
                    protocols=",".join(f"{each.name}:{each.protocol}" for each in listeners),
                    data=data,
                    settings="\n".join(f"{name}={value}" for name, value in settings.items()),
                )
            )
            formatting = ["kafka.tools.StorageTool", "format", "-t", "flykka-tests-of-kafkA", "-c", str(configuration)]
            subprocess.run([*self._java, *formatting], check=True, capture_output=True)
        return [*self._java, "kafka.Kafka", str(configuration)]


class NoidaDb(Program):
    """The broker of the package noida-db, which speaks Kafka's protocol."""

    name = "the broker of noida-db 0.2.3"
    forgets = True

    def __init__(self) -> None:
        spec = find_spec("noida_db")
        if spec is None or spec.origin is None:
            raise NoBrokerError(
                "a broker of Kafka is needed: scripts/kafka.sh fetches Apache Kafka with Maven, or pip install noida-db"
            )
        self._program = Path(spec.origin).with_name("noida-db")

    def command(self, data: Path, listeners: Sequence[Listener], settings: Mapping[str, str]) -> list[str]:
        if len(listeners) > 1 or settings:
            raise NoBrokerError(f"{self.name} has one listener and no settings")
        port = str(listeners[0].port)
        return [str(self._program), "start", "--only", "kafka", "--data-dir", str(data), "--kafka-port", port]


@cache
def program() -> Program:
    """Return Apache Kafka if available, else noida-db. Raises `NoBrokerError` if neither is available."""
    fetched = subprocess.run([_KAFKA_SCRIPT], capture_output=True, text=True)
    if fetched.returncode == 0:
        return ApacheKafka(Path(fetched.stdout.strip()))
    return NoidaDb()


class Broker:
    """A broker with its data in a folder. The methods use its first listener, which needs no password."""

    def __init__(
        self, folder: Path, *, listeners: Sequence[Listener] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        port = free_port()
        self._listeners = (Listener(name="PLAINTEXT", port=port), *listeners)
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{port}"
        self.program = program()
        self.start()

    def start(self) -> None:
        """Start the broker, or restart it with its data after it was killed."""
        with (self.folder.parent / "broker.log").open("ab") as log:
            command = self.program.command(self.folder, self._listeners, self._settings)
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        admin, deadline = self.admin(), time.monotonic() + _DEADLINE_S
        while True:
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def kill(self) -> None:
        """Kill the broker with SIGKILL. Acknowledged records are kept, unless its program `forgets`."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Terminate the broker while clients use it; it saves the acknowledged records."""
        self._end(signal.SIGTERM)

    def admin(self) -> AdminClient:
        return AdminClient(self.client())

    def client(self, **settings: str | int) -> dict[str, str | int | float | bool]:
        """Return client settings, with which killed brokers are not logged."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        return {"bootstrap.servers": self.address, "log_level": 0, **named}

    def create(self, topic: str, partitions: int = 1, **config: str | int) -> None:
        """Create a topic; in the names of its settings, `_` stands for `.`."""
        admin = self.admin()
        named = {key.replace("_", "."): str(value) for key, value in config.items()}
        for made in admin.create_topics([NewTopic(topic, partitions, 1, config=named)]).values():
            made.result()

    def delete(self, topic: str) -> None:
        """Delete a topic, because noida-db's broker saves all of its data again every second."""
        admin = self.admin()
        for deleted in admin.delete_topics([topic]).values():
            deleted.result()

    def grow(self, topic: str, partitions: int) -> None:
        admin = self.admin()
        for made in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            made.result()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        admin = self.admin()
        for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            done.result()

    def send(self, topic: str, *values: bytes | None, partition: int = 0, **more: object) -> None:
        producer = Producer(self.client(linger_ms=0, message_max_bytes=100_000_000))
        for value in values:
            producer.produce(topic, value=value, partition=partition, **more)  # type: ignore[arg-type]
        assert producer.flush(_DEADLINE_S) == 0

    def values(self, topic: str) -> list[bytes]:
        """Return the values of committed records, partition by partition, when no transaction is open.

        Kafka confirms a commit before it writes the markers that let readers continue.
        """
        deadline = time.monotonic() + _DEADLINE_S
        while self.has_open_transaction(topic):
            assert time.monotonic() < deadline, f"a transaction in {topic} does not end"
            time.sleep(0.02)
        return self.visible_values(topic)

    def has_open_transaction(self, topic: str) -> bool:
        """Return True while a transaction keeps readers of committed records from the end of a partition."""
        return self._ends(topic, "read_committed") != self._ends(topic, "read_uncommitted")

    def visible_values(self, topic: str) -> list[bytes]:
        """Return the values that a reader of committed records currently sees, partition by partition."""
        reader = Consumer(
            self.client(
                group_id="reader", isolation_level="read_committed", enable_partition_eof=True, enable_auto_commit=False
            )
        )
        try:
            found: list[bytes] = []
            for number in _partitions(reader, topic):
                low, high = _offsets(reader, TopicPartition(topic, number))
                if low < high:
                    reader.assign([TopicPartition(topic, number, low)])
                    found += _until_end(reader)
            return found
        finally:
            reader.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """Return the committed offset of a group; negative if there is none."""
        reader = Consumer(self.client(group_id=group))
        try:
            (found,) = reader.committed([TopicPartition(topic, partition)], timeout=_DEADLINE_S)
            return int(found.offset)
        finally:
            reader.close()

    def _ends(self, topic: str, isolation_level: str) -> list[int]:
        reader = Consumer(self.client(group_id="reader", isolation_level=isolation_level))
        try:
            return [_offsets(reader, TopicPartition(topic, number))[1] for number in _partitions(reader, topic)]
        finally:
            reader.close()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_DEADLINE_S)
            self._process = None


def _until_end(reader: Consumer) -> list[bytes]:
    found: list[bytes] = []
    while True:
        message = reader.poll(_DEADLINE_S)
        assert message is not None, "the broker does not answer"
        if message.error() is not None:
            return found
        found.append(message.value() or b"")


_PORTS: set[int] = set()


def free_port() -> int:
    """Return an unused loopback port that this process has not returned before, because it may be in use later."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        if port not in _PORTS:
            _PORTS.add(port)
            return port


@contextmanager
def running_broker(
    folder: Path, *, listeners: Sequence[Listener] = (), settings: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    broker = Broker(folder, listeners=listeners, settings=settings)
    try:
        yield broker
    finally:
        broker.kill()


def _partitions(reader: Consumer, topic: str) -> list[int]:
    return sorted(reader.list_topics(topic, timeout=_DEADLINE_S).topics[topic].partitions)


def _offsets(reader: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset, and the offset after the last record.

    Waits for a broker that has just become the partition's leader.
    """
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            offsets: tuple[int, int] = reader.get_watermark_offsets(partition, timeout=_DEADLINE_S)
            return offsets
        except KafkaException as failed:
            if failed.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
