"""Clients of a Kafka cluster, created with the user's properties and called with a deadline."""

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
    """Check properties of librdkafka, in whose names the user writes `_` for `.`.

    Raises:
        MissingExtraError: confluent-kafka is not installed.
        ValueError: flykka sets this property itself.
    """
    require("confluent_kafka", extra="kafka", what=what)
    remember_secrets(properties)
    by_name = {key if key in _WITH_UNDERSCORE else key.replace("_", "."): value for key, value in properties.items()}
    if refused := sorted(_OURS.intersection(by_name)):
        raise ValueError(
            f"the property {refused[0]!r} is not allowed: {what} decides it, so that rows are exactly once"
        )
    return tuple(sorted((key, _text(value)) for key, value in by_name.items()))


@dataclass(frozen=True, slots=True)
class Cluster:
    bootstrap_servers: str
    properties: Properties = field(default=(), repr=False)

    def consumer(self, group_id: str, **own: Any) -> Consumer:
        """Create a consumer of committed records that does not commit offsets. Settings in `own` take precedence."""
        from confluent_kafka import Consumer

        ours = {"group.id": group_id, "enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer(self._settings(**ours, **own), logger=_LIBRDKAFKA)

    def producer(self, **own: Any) -> Producer:
        """Create a producer that only reports rejected records. Settings in `own` take precedence."""
        from confluent_kafka import Producer

        ours = {"delivery.report.only.error": True}
        return Producer(self._settings(**ours, **own), logger=_LIBRDKAFKA)

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._settings(), logger=_LIBRDKAFKA)

    def _settings(self, **own: Any) -> dict[str, Any]:
        return {**dict(self.properties), "bootstrap.servers": self.bootstrap_servers, **own}


class OffsetReader:
    """Queries a cluster for partitions and offsets. Not thread-safe. Its connection stays open."""

    def __init__(self, cluster: Cluster, group_id: str | None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._timeout = timeout_seconds
        self._opened: Consumer | None = None
        self._admin: AdminClient | None = None
        self._errors: list[KafkaError] = []

    @property
    def _consumer(self) -> Consumer:
        if self._opened is None:
            self._opened = self._cluster.consumer(self._group_id or "flykka", error_cb=self._errors.append)
        return self._opened

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
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
        """Return the ids of topics: a topic that is deleted and created again gets a new id. Raises `SourceError`.

        Missing topics are left out. The result is empty for a cluster without topic ids.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        if self._admin is None:
            self._admin = self._cluster.admin()
        topic_ids: dict[str, str] = {}
        with self._source_errors():
            answers = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout)
            for topic, answer in answers.items():
                try:
                    topic_ids[topic] = str(answer.result().topic_id)
                except KafkaException as refused:
                    if refused.args[0].code() not in (
                        KafkaError.UNKNOWN_TOPIC_OR_PART,
                        KafkaError._UNSUPPORTED_FEATURE,
                    ):
                        raise
        return {topic: each for topic, each in topic_ids.items() if each != _NO_ID}

    def _metadata(self) -> dict[str, Any]:
        """Return all topics, by name. Raises `SourceError`, without delay if a password or a certificate is rejected.

        librdkafka would retry until the timeout, and then not report the reason.
        """
        from confluent_kafka import KafkaException

        deadline, patience = time.monotonic() + self._timeout, _FIRST_PATIENCE_SECONDS
        with self._source_errors():
            while True:
                seconds_left = deadline - time.monotonic()
                try:
                    return dict(self._consumer.list_topics(timeout=max(0.0, min(patience, seconds_left))).topics)
                except KafkaException:
                    self._consumer.poll(0)
                    if refused := [each for each in self._errors if each.name() in _REFUSALS]:
                        raise KafkaException(refused[-1]) from None
                    if seconds_left <= patience:
                        raise
                patience *= 2

    def bounds(self, at: TopicPartition) -> tuple[int, int]:
        """Return the first offset, and the offset after the last record that a reader may see. Raises `SourceError`."""
        from confluent_kafka import TopicPartition as Named

        with self._source_errors(at):
            low, high = self._consumer.get_watermark_offsets(Named(*at), timeout=self._timeout)
        return low, high

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: self.bounds(at)[1] for at in partitions}

    def first_at_time(self, ranges: Sequence[OffsetRange], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the first offsets in ranges at or after this time, or the ends of the ranges. Raises `SourceError`."""
        ends = {each.at: each.end for each in ranges}
        return {at: ends[at] if offset is None else offset for at, offset in self._since(ends, timestamp_ms).items()}

    def at_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the first offsets at or after this time, or the end offsets. Raises `SourceError`."""
        offsets = self._since(partitions, timestamp_ms)
        return {at: self.bounds(at)[1] if offset is None else offset for at, offset in offsets.items()}

    def _since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        from confluent_kafka import TopicPartition as Named

        queries = [Named(*at, timestamp_ms) for at in partitions]
        with self._source_errors():
            answers = self._consumer.offsets_for_times(queries, timeout=self._timeout) if queries else []
        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None for each in answers
        }

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka import TopicPartition as Named

        with self._source_errors():
            answers = self._consumer.committed([Named(*at) for at in partitions], timeout=self._timeout)
        return {TopicPartition(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = self._admin = None

    @contextmanager
    def _source_errors(self, at: TopicPartition | None = None) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as refused:
            of = "" if at is None else f" of {at}"
            raise SourceError(
                f"Kafka at {self._cluster.bootstrap_servers} does not return the offsets{of}: {error_text(refused)}"
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
    # librdkafka reports this error for a response that it considers too long.
    "_BAD_MSG": ": if records are large, raise receive_message_max_bytes of the source",
    "_FENCED": _REPLACED,
    "PRODUCER_FENCED": _REPLACED,
    "INVALID_PRODUCER_EPOCH": _REPLACED,
}
"""Advice for users, by the names of librdkafka's errors."""


def error_text(error: Exception | KafkaError) -> str:
    cause = error.args[0] if isinstance(error, Exception) and error.args else error
    text, name = getattr(cause, "str", None), getattr(cause, "name", None)
    return f"{text()}{_ADVICE.get(name(), '')}" if callable(text) and callable(name) else str(cause)


def topics_there(cluster: Cluster) -> list[str]:
    reader = OffsetReader(cluster, None)
    try:
        return reader.topics()
    except SourceError as refused:
        raise SinkError(str(refused)) from refused
    finally:
        reader.close()


# Receives librdkafka's own log. Important problems are reported as errors anyway.
_LIBRDKAFKA = logging.getLogger("flykka.librdkafka")
_LIBRDKAFKA.addHandler(logging.NullHandler())
_LIBRDKAFKA.propagate = False


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


logger = logging.getLogger("flykka.spark_bridge")

PENDING_MAX = 3


class OffsetCommitter:
    """Commits the offsets of one source to a group, for monitoring only: no component waits for the commits.

    It uses a separate thread, which ends when there is nothing to commit. Only a few commits may be pending: if the
    cluster does not respond, the oldest commits are dropped, because newer commits replace them. Dropped commits are
    counted and logged.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._lock = Lock()
        self._pending: deque[tuple[Cluster, str, Offsets]] = deque()
        self._is_running = False
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
            if self._is_running:
                return
            self._is_running = True
            self._thread = Thread(target=self._run, name="flykka-kafka-offsets", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        consumer: Consumer | None = None
        while True:
            with self._lock:
                if not self._pending:
                    self._is_running = False
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
        logger.warning("group %s at %s refuses offsets: %s", group, cluster.bootstrap_servers, error_text(refused))
    return consumer
