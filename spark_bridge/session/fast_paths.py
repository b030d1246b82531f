"""Fast paths of the data plane: no result depends on them, and settings of the Spark session turn them off."""

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
    """The fast paths that are on."""

    local_recovery: bool = True
    """A restarted subtask goes on with state that is still there, and does not read it from the checkpoint."""
    background_merges: bool = True
    """Keyed state is merged beside the stages, and not by the stage that finds it in too many pieces."""
    warm_up: bool = True
    """A driver that waits for another one to end runs some stages meanwhile."""
    lazy_reading: bool = True
    """A few small files of a source are read by the stage that they go to, with those of other sources."""

    @classmethod
    def of(cls, session: SparkSession) -> Self:
        """Read them off the settings of a session. Raises `SessionError` where one is neither true nor false."""
        return cls(
            local_recovery=_is_on(session, LOCAL_RECOVERY),
            background_merges=_is_on(session, BACKGROUND_MERGES),
            warm_up=_is_on(session, WARM_UP),
            lazy_reading=_is_on(session, LAZY_READING),
        )


def _is_on(session: SparkSession, setting: str) -> bool:
    value = session.conf.get(setting, "true") or ""
    if value.lower() not in ("true", "false"):
        raise SessionError(f"{setting} is {value!r}: it takes true or false")
    return value.lower() == "true"
