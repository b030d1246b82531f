"""Commits offsets to a group, for others to look at: nothing waits for it, and nothing depends on it.

At most a few commits are under way: where the cluster does not answer, the oldest offsets are dropped, for newer ones
take their place. That is counted and told.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock, Thread
from typing import TYPE_CHECKING

from flykka.spark_bridge.connectors.kafka.client import Cluster, told

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from flykka.spark_bridge.connectors.kafka.ranges import Offsets

logger = logging.getLogger("flykka.spark_bridge")

PENDING_MAX = 3


class OffsetCommitter:
    """The commits of one source, on a thread of their own that ends when there are none."""

    def __init__(self) -> None:
        self.dropped = 0
        self._lock = Lock()
        self._pending: deque[tuple[Cluster, str, Offsets]] = deque()
        self._is_at_work = False
        self._thread: Thread | None = None

    def commit(self, cluster: Cluster, group: str, offsets: Offsets) -> None:
        with self._lock:
            self._pending.append((cluster, group, offsets))
            if len(self._pending) > PENDING_MAX:
                self._pending.popleft()
                self.dropped += 1
                logger.warning(
                    "group %s at %s: %d commits of offsets were dropped", group, cluster.bootstrap_servers, self.dropped
                )
            if self._is_at_work:
                return
            self._is_at_work = True
            self._thread = Thread(target=self._work, name="flykka-kafka-offsets", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        consumer: Consumer | None = None
        while True:
            with self._lock:
                if not self._pending:
                    self._is_at_work = False
                    break
                cluster, group, offsets = self._pending.popleft()
            consumer = _commit(consumer, cluster, group, offsets)
        if consumer is not None:
            consumer.close()


def _commit(consumer: Consumer | None, cluster: Cluster, group: str, offsets: Offsets) -> Consumer:
    from confluent_kafka import KafkaException, TopicPartition

    if consumer is None:
        consumer = cluster.consumer(group)
    try:
        consumer.commit(offsets=[TopicPartition(*at, offset) for at, offset in offsets.items()], asynchronous=False)
    except KafkaException as refused:
        logger.warning("group %s at %s does not take offsets: %s", group, cluster.bootstrap_servers, told(refused))
    return consumer
