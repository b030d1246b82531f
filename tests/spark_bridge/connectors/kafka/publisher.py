"""Publishes the rows of a checkpoint as a task of a KafkaSink does, also as a process that can be paused or killed.

    python -m tests.spark_bridge.connectors.kafka.publisher ADDRESS TOPIC TIMEOUT_MS

An error is printed as the last line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from flykka.spark_bridge.connectors.kafka.client import Cluster
from flykka.spark_bridge.connectors.kafka.publishing import PublishKafkaTransaction

ROWS = [b"row %d" % number for number in range(20)]
CHECKPOINT = 7


def publish(address: str, topic: str, timeout_ms: int = 60_000) -> int:
    """Publish the rows, whatever the attempt of the writer, and return how many had not been published before."""
    cluster = Cluster(address, (("transaction.timeout.ms", str(timeout_ms)), ("log_level", "0")))
    work = PublishKafkaTransaction(cluster=cluster, topic=topic, writer=f"job/{topic}", checkpoint_id=CHECKPOINT)
    batch = pa.RecordBatch.from_pylist([{"value": row} for row in ROWS])
    (number,) = (done.column(0)[0].as_py() for done in work([batch]))
    return int(number)


@contextmanager
def publishing(address: str, topic: str, timeout_ms: int = 60_000) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.spark_bridge.connectors.kafka.publisher", address, topic, str(timeout_ms)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    publish(sys.argv[1], sys.argv[2], int(sys.argv[3]))
