"""The settings of a PostgresCdcSource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.held_snapshot import HeldSnapshot
from flykka.spark_bridge.connectors.postgres.members import ChangedTable
from flykka.spark_bridge.connectors.postgres.read_values import OnUnreadable
from flykka.spark_bridge.connectors.postgres.replication_slot import ReplicationSlot

StartupMode = Literal["initial", "latest-offset", "committed-offset"]
OnSchemaChange = Literal["fail", "ignore"]
OnTruncate = Literal["fail", "ignore"]
_POLL_INTERVAL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcSourceSettings:
    """The fields of a `PostgresCdcSource`, for its discovery of splits and what it looks at before."""

    database: Database
    table: str
    slot: ReplicationSlot
    startup_mode: StartupMode = "initial"
    on_schema_change: OnSchemaChange = "fail"
    on_truncate: OnTruncate = "fail"
    on_unreadable: OnUnreadable = "fail"
    metadata: tuple[str, ...] = ()
    is_bounded: bool = False
    until: int | None = None
    poll_interval_ms: int = _POLL_INTERVAL_MS
    event_time: str | None = None
    bound_to: ChangedTable | None = field(default=None, compare=False, repr=False)
    held: HeldSnapshot = field(default_factory=HeldSnapshot, compare=False, repr=False)

    @property
    def format(self) -> str:
        """The word of Flink CDC's connector."""
        return "postgres-cdc"

    def __str__(self) -> str:
        return f"{self.format} {self.table} at {self.database}"
