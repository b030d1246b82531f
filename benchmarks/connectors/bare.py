"""The bare client: processes that only consume records, or also produce them again.

    python -m benchmarks.connectors.bare ADDRESS TOPIC PARTITION,... RECORDS [TARGET [SECONDS]]

runs such a process; it prints the seconds from its first request to its last record. With SECONDS the records are
produced in transactions of that length, which also commit the consumed offsets.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.connectors.broker import Broker
from benchmarks.engine_process import EngineFailedError

_AT_ONCE = 10_000
WHOLE_BACKLOG = {"receive.message.max.bytes": 2_000_000_000}
"""The broker of noida-db puts everything into one response, but a client only accepts 100 MB by default."""

_AS_THE_SOURCE = {"fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 10}
"""The settings of a KafkaSource. By default a client pauses for a second when it has prefetched enough records."""


def fill(broker: Broker, topic: str, partitions: int, records: int) -> None:
    broker.create(topic, partitions)
    producer = Producer(broker.client(linger_ms=50))
    for number in range(records):
        value = b'{"id": %d, "name": "record %d"}' % (number, number)
        _produce(producer, topic, value.ljust(100), number % partitions)
    producer.flush()


def consumed(broker: Broker, topic: str, partitions: int, records: int) -> float:
    """Return the seconds in which two processes consume all records, each half of the partitions.

    Raises `EngineFailedError`.
    """
    halves = [range(0, partitions, 2), range(1, partitions, 2)]
    per_half = records // 2
    return max(_run([[broker.address, topic, ",".join(map(str, half)), str(per_half)] for half in halves]))


def copied(broker: Broker, topic: str, target: str, records: int, interval_s: float | None = None) -> float:
    """Return the seconds in which a process copies a topic, in transactions of `interval_s` if set.

    Raises:
        EngineFailedError: the process failed, or records are missing in the copy.
    """
    partitions = ",".join(map(str, range(4)))
    broker.create(target, 4)
    interval = [] if interval_s is None else [str(interval_s)]
    (seconds,) = _run([[broker.address, topic, partitions, str(records), target, *interval]])
    if (found := len(broker.values(target))) != records:
        raise EngineFailedError(f"a bare client has produced {found:,} records, not {records:,}")
    broker.delete(target)
    return seconds


def main(
    address: str, topic: str, partitions: str, records: str, target: str | None = None, interval_s: str | None = None
) -> None:
    own = {"isolation.level": "read_committed"} if interval_s else {}
    settings = {"bootstrap.servers": address, "group.id": f"bare-{target}", "enable.auto.commit": False}
    consumer = Consumer({**settings, **own, **WHOLE_BACKLOG, **_AS_THE_SOURCE})
    begun = time.perf_counter()
    consumer.assign([TopicPartition(topic, int(number), 0) for number in partitions.split(",")])
    if target is None:
        for _ in _consumed(consumer, int(records)):
            pass
    elif interval_s is None:
        _copy(consumer, Producer({"bootstrap.servers": address, "linger.ms": 50}), int(records), target)
    else:
        own = {"transactional.id": f"bare-{target}"}
        producer = Producer({"bootstrap.servers": address, "linger.ms": 50, **own})
        _copy_in_transactions(consumer, producer, int(records), target, float(interval_s))
    print(time.perf_counter() - begun)


def _consumed(consumer: Consumer, records: int) -> Iterator[list[Message]]:
    while records > 0:
        messages = consumer.consume(min(_AT_ONCE, records), timeout=1.0)
        records -= len(messages)
        yield messages


def _copy(consumer: Consumer, producer: Producer, records: int, target: str) -> None:
    for messages in _consumed(consumer, records):
        _produce_again(producer, target, messages)
    producer.flush()


def _copy_in_transactions(consumer: Consumer, producer: Producer, records: int, target: str, interval_s: float) -> None:
    producer.init_transactions()
    producer.begin_transaction()
    begun = time.perf_counter()
    for messages in _consumed(consumer, records):
        _produce_again(producer, target, messages)
        if time.perf_counter() - begun >= interval_s:
            _commit(consumer, producer)
            producer.begin_transaction()
            begun = time.perf_counter()
    _commit(consumer, producer)


def _commit(consumer: Consumer, producer: Producer) -> None:
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
    producer.commit_transaction()


def _produce_again(producer: Producer, target: str, messages: Sequence[Message]) -> None:
    for message in messages:
        _produce(producer, target, message.value() or b"", message.partition() or 0)


def _produce(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value=value, partition=partition)
            return
        except BufferError:
            producer.poll(0.1)


def _run(several: Sequence[Sequence[str]]) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.connectors.bare"]
    processes = [
        subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for arguments in several
    ]
    seconds: list[float] = []
    for process in processes:
        said, log = process.communicate()
        if process.returncode:
            raise EngineFailedError(f"a bare client ended with exit code {process.returncode}:\n{log[-4_000:]}")
        seconds.append(float(said))
    return seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
