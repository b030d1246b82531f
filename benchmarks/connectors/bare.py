"""The client alone: processes that consume records and do nothing else with them, or produce them again.

    python -m benchmarks.connectors.bare ADDRESS TOPIC PARTITION,... RECORDS [TARGET]

is such a process; it prints the seconds that it took, from its first request to its last record.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.connectors.broker import Broker
from benchmarks.engine_process import EngineFailedError

_AT_ONCE = 10_000
WHOLE_BACKLOG = {"receive.message.max.bytes": 2_000_000_000}
"""The broker of noida-db puts all that it has into one response, of which a client takes 100 MB by default."""


def fill(broker: Broker, topic: str, partitions: int, records: int) -> None:
    """Make a topic with records of 100 bytes of JSON."""
    broker.create(topic, partitions)
    producer = Producer(broker.client(linger_ms=50))
    for number in range(records):
        value = b'{"id": %d, "name": "record %d"}' % (number, number)
        _produce(producer, topic, value.ljust(100), number % partitions)
    producer.flush()


def consumed(broker: Broker, topic: str, partitions: int, records: int) -> float:
    """Seconds that two processes take to consume all, each half of the partitions. Raises `EngineFailedError`."""
    halves = [range(0, partitions, 2), range(1, partitions, 2)]
    per_half = records // 2
    return max(_run([[broker.address, topic, ",".join(map(str, half)), str(per_half)] for half in halves]))


def copied(broker: Broker, topic: str, target: str, records: int) -> float:
    """Seconds that a process takes to produce again what it consumes. Raises `EngineFailedError`."""
    partitions = ",".join(map(str, range(4)))
    broker.create(target, 4)
    (seconds,) = _run([[broker.address, topic, partitions, str(records), target]])
    broker.delete(target)
    return seconds


def main(address: str, topic: str, partitions: str, records: str, target: str | None = None) -> None:
    """Consume as many records from these partitions, and print the seconds."""
    settings = {"bootstrap.servers": address, "group.id": "bare", "enable.auto.commit": False, **WHOLE_BACKLOG}
    consumer = Consumer(settings)
    producer = None if target is None else Producer({"bootstrap.servers": address, "linger.ms": 50})
    begun, left = time.perf_counter(), int(records)
    consumer.assign([TopicPartition(topic, int(number), 0) for number in partitions.split(",")])
    while left > 0:
        messages = consumer.consume(min(_AT_ONCE, left), timeout=1.0)
        left -= len(messages)
        if producer is not None and target is not None:
            for message in messages:
                _produce(producer, target, message.value() or b"", message.partition() or 0)
    if producer is not None:
        producer.flush()
    print(time.perf_counter() - begun)


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
