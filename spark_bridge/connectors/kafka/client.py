"""Clients of a Kafka cluster: made of the properties that the user gives, and asked with a deadline."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.connector import require
from flykka.spark_bridge.connectors.kafka.ranges import TopicPartition
from flykka.spark_bridge.errors import SinkError, SourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

    from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, Offsets

Properties = tuple[tuple[str, str], ...]

TIMEOUT_SECONDS = 30.0

_WITH_UNDERSCORE = frozenset({"log_level"})
_OURS = frozenset({"enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "transactional.id"})


def checked_properties(properties: Mapping[str, object], what: str) -> Properties:
    """Properties of librdkafka, whose names the user gives with `_` for `.`.

    Raises:
        MissingExtraError: confluent-kafka is not installed.
        ValueError: flykka decides on this one.
    """
    require("confluent_kafka", extra="kafka", what=what)
    remember_secrets(properties)
    named = {key if key in _WITH_UNDERSCORE else key.replace("_", "."): value for key, value in properties.items()}
    if refused := sorted(_OURS.intersection(named)):
        raise ValueError(
            f"the property {refused[0]!r} does not apply: {what} decides it, for rows to come exactly once"
        )
    return tuple(sorted((key, _text(value)) for key, value in named.items()))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, by its addresses and the properties of its clients."""

    bootstrap_servers: str
    properties: Properties = field(default=(), repr=False)

    def consumer(self, group_id: str, **own: Any) -> Consumer:
        """Make a consumer of committed records, which commits nothing by itself; own settings come last."""
        from confluent_kafka import Consumer

        ours = {"group.id": group_id, "enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer(self._settings(**ours, **own), logger=_LIBRDKAFKA)

    def producer(self, **own: Any) -> Producer:
        """Make a producer, which tells of records that were refused, and of no others; own settings come last."""
        from confluent_kafka import Producer

        ours = {"delivery.report.only.error": True}
        return Producer(self._settings(**ours, **own), logger=_LIBRDKAFKA)

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._settings(), logger=_LIBRDKAFKA)

    def _settings(self, **own: Any) -> dict[str, Any]:
        return {**dict(self.properties), "bootstrap.servers": self.bootstrap_servers, **own}


class OffsetReader:
    """Asks a cluster for partitions and offsets. Used by one call at a time; its connection stays open."""

    def __init__(self, cluster: Cluster, group_id: str | None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._timeout = timeout_seconds
        self._made: Consumer | None = None
        self._admin: AdminClient | None = None
        self._heard: list[KafkaError] = []

    @property
    def _consumer(self) -> Consumer:
        if self._made is None:
            self._made = self._cluster.consumer(self._group_id or "flykka", error_cb=self._heard.append)
        return self._made

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of topics that are there. Raises `SourceError`."""
        there = self._metadata()
        return [
            TopicPartition(topic, number)
            for topic in topics
            if topic in there and there[topic].error is None
            for number in sorted(there[topic].partitions)
        ]

    def topics(self) -> list[str]:
        return sorted(name for name in self._metadata() if name[:2] != "__")

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics: one that is deleted and made again has another one. Raises `SourceError`.

        Without those of topics that are not there; a cluster that has no ids gives none.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        if self._admin is None:
            self._admin = self._cluster.admin()
        found: dict[str, str] = {}
        with self._told():
            asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout)
            for topic, answer in asked.items():
                try:
                    found[topic] = str(answer.result().topic_id)
                except KafkaException as refused:
                    if refused.args[0].code() not in (
                        KafkaError.UNKNOWN_TOPIC_OR_PART,
                        KafkaError._UNSUPPORTED_FEATURE,
                    ):
                        raise
        return {topic: each for topic, each in found.items() if each != _NO_ID}

    def _metadata(self) -> dict[str, Any]:
        """All topics, by name. Raises `SourceError`: at once where a password or a certificate is refused.

        librdkafka would try it again until the time is over, and then say nothing of the reason.
        """
        from confluent_kafka import KafkaException

        deadline, patience = time.monotonic() + self._timeout, _FIRST_PATIENCE_SECONDS
        with self._told():
            while True:
                left = deadline - time.monotonic()
                try:
                    return dict(self._consumer.list_topics(timeout=max(0.0, min(patience, left))).topics)
                except KafkaException:
                    self._consumer.poll(0)
                    if refused := [each for each in self._heard if each.name() in _REFUSALS]:
                        raise KafkaException(refused[-1]) from None
                    if left <= patience:
                        raise
                patience *= 2

    def bounds(self, at: TopicPartition) -> tuple[int, int]:
        """The first offset that is there, and the one behind the last that a reader may see. Raises `SourceError`."""
        from confluent_kafka import TopicPartition as Named

        with self._told(at):
            low, high = self._consumer.get_watermark_offsets(Named(*at), timeout=self._timeout)
        return low, high

    def behind_last(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets behind the last records that a reader may see. Raises `SourceError`."""
        return {at: self.bounds(at)[1] for at in partitions}

    def first_at_time(self, ranges: Sequence[OffsetRange], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offsets in ranges of this time or a later one; their ends where there is none. `SourceError`."""
        ends = {each.at: each.end for each in ranges}
        return {at: ends[at] if offset is None else offset for at, offset in self._since(ends, timestamp_ms).items()}

    def at_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offsets of this time or a later one; behind the last where there is none. Raises `SourceError`."""
        found = self._since(partitions, timestamp_ms)
        return {at: self.bounds(at)[1] if offset is None else offset for at, offset in found.items()}

    def _since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        from confluent_kafka import TopicPartition as Named

        asked = [Named(*at, timestamp_ms) for at in partitions]
        with self._told():
            found = self._consumer.offsets_for_times(asked, timeout=self._timeout) if asked else []
        return {TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None for each in found}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the group has committed, of the partitions where it has. Raises `SourceError`."""
        from confluent_kafka import TopicPartition as Named

        with self._told():
            found = self._consumer.committed([Named(*at) for at in partitions], timeout=self._timeout)
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = self._admin = None

    @contextmanager
    def _told(self, at: TopicPartition | None = None) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as refused:
            of = "" if at is None else f" of {at}"
            raise SourceError(
                f"Kafka at {self._cluster.bootstrap_servers} does not say the offsets{of}: {told(refused)}"
            ) from refused


_FIRST_PATIENCE_SECONDS = 1.0
_REFUSALS = frozenset({"_AUTHENTICATION", "_SSL"})
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_REPLACED = (
    ": another attempt has taken over, or the transaction took too long: then raise transaction_timeout_ms of the sink"
)
_ADVICE = {
    "MSG_SIZE_TOO_LARGE": ": make the rows smaller, or raise max.message.bytes of the topic and message_max_bytes of"
    " the sink",
    # So librdkafka says of an answer that it takes for too long.
    "_BAD_MSG": ": if records are large, raise receive_message_max_bytes of the source",
    "_FENCED": _REPLACED,
    "PRODUCER_FENCED": _REPLACED,
    "INVALID_PRODUCER_EPOCH": _REPLACED,
}
"""Advice, by the names of librdkafka's errors."""


def told(error: Exception | KafkaError) -> str:
    cause = error.args[0] if isinstance(error, Exception) and error.args else error
    text, name = getattr(cause, "str", None), getattr(cause, "name", None)
    return f"{text()}{_ADVICE.get(name(), '')}" if callable(text) and callable(name) else str(cause)


def topics_there(cluster: Cluster) -> list[str]:
    """The topics of a cluster.

    Raises:
        SinkError: it does not answer.
    """
    reader = OffsetReader(cluster, None)
    try:
        return reader.topics()
    except SourceError as refused:
        raise SinkError(str(refused)) from refused
    finally:
        reader.close()


# For what librdkafka says by itself: what matters of it comes as an error.
_LIBRDKAFKA = logging.getLogger("flykka.librdkafka")
_LIBRDKAFKA.addHandler(logging.NullHandler())
_LIBRDKAFKA.propagate = False


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


logger = logging.getLogger("flykka.spark_bridge")

PENDING_MAX = 3


class OffsetCommitter:
    """Commits the offsets of one source to a group, for others to look at: nothing waits for it or depends on it.

    It does so on a thread of its own, which ends when there is nothing to commit. At most a few commits are under way:
    where the cluster does not answer, the oldest offsets are dropped, for newer ones take their place. That is counted
    and told.
    """

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


def _commit(consumer: Consumer | None, cluster: Cluster, group: str, offsets: Offsets) -> Consumer | None:
    from confluent_kafka import KafkaException, TopicPartition

    try:
        if consumer is None:
            consumer = cluster.consumer(group)
        consumer.commit(offsets=[TopicPartition(*at, offset) for at, offset in offsets.items()], asynchronous=False)
    except KafkaException as refused:
        logger.warning("group %s at %s does not take offsets: %s", group, cluster.bootstrap_servers, told(refused))
    return consumer
