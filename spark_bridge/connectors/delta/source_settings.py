"""The settings of a DeltaSource."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from flykka.spark_bridge.connectors.delta.table import StorageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSourceSettings:
    """The fields of a `DeltaSource`, for its discovery of splits."""

    path: str
    schema: StructType | None = None
    event_time: str | None = None
    as_of: int | None = None
    as_of_ms: int | None = None
    starting: int | None = None
    starting_ms: int | None = None
    interval_ms: int | None = None
    ignores_deletes: bool = False
    skips_change_commits: bool = False
    options: StorageOptions = field(default=(), repr=False)
