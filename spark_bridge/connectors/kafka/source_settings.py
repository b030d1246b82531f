"""The settings of a KafkaSource."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.spark_bridge.connectors.kafka.client import Cluster
from flykka.spark_bridge.connectors.kafka.formats import RawFormat, ValueFormat
from flykka.spark_bridge.connectors.kafka.offset_commits import OffsetCommitter
from flykka.spark_bridge.connectors.kafka.offsets import OffsetsInitializer

_DISCOVERY_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceSettings:
    """The fields of a `KafkaSource`, for its discovery of splits and the reading of records."""

    cluster: Cluster
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    value_format: ValueFormat = field(default_factory=RawFormat)
    metadata: tuple[str, ...] = ()
    starting: OffsetsInitializer = field(default_factory=OffsetsInitializer.earliest)
    stopping: OffsetsInitializer | None = None
    group: str | None = None
    rate: float | None = None
    aligns_partitions: bool = False
    discovery_interval_ms: int = _DISCOVERY_INTERVAL_MS
    event_time: str | None = None
    committer: OffsetCommitter = field(default_factory=OffsetCommitter, compare=False, repr=False)

    @property
    def is_bounded(self) -> bool:
        """True if it has an end."""
        return self.stopping is not None

    @property
    def counts_corrupt(self) -> bool:
        """True if corrupt records are left out."""
        return self.value_format.on_corrupt == "skip"
