"""Fast paths of the data plane. They change no result, and settings of the Spark session turn them off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from flykka.spark_bridge.errors import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_RECOVERY = "spark.flykka.localRecovery"
BACKGROUND_MERGES = "spark.flykka.backgroundMerges"
WARM_UP = "spark.flykka.warmUp"
LAZY_READING = "spark.flykka.lazyReading"


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPaths:
    local_recovery: bool = True
    """A restarted subtask uses state that is still on the executors, instead of reading the checkpoint."""
    background_merges: bool = True
    """Keyed state is merged in parallel to stages, instead of by the stage that finds too many segments."""
    warm_up: bool = True
    """A driver runs some stages to warm up Spark while it waits for another driver to end."""
    lazy_reading: bool = True
    """A few small files of a source are read by the stage that receives them, in one scan with other files."""

    @classmethod
    def of(cls, session: SparkSession) -> Self:
        """Raises `SessionError` if a setting is neither true nor false."""
        return cls(
            local_recovery=_is_on(session, LOCAL_RECOVERY),
            background_merges=_is_on(session, BACKGROUND_MERGES),
            warm_up=_is_on(session, WARM_UP),
            lazy_reading=_is_on(session, LAZY_READING),
        )


def _is_on(session: SparkSession, setting: str) -> bool:
    value = session.conf.get(setting, "true") or ""
    if value.lower() not in ("true", "false"):
        raise SessionError(f"{setting} is {value!r}: it must be true or false")
    return value.lower() == "true"
