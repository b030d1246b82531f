"""Failures of Spark itself: the text that they are known by, their names here, and whether a restart can mend them.

An exception of a user's function in a Python worker is none of these. Whether the session still runs is asked of it, in
`spark_sessions`, and not read in a text: every call fails in a different way then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MEMORY = (
    "give executors more (spark.executor.memory, spark.executor.memoryOverhead; at a local master"
    " spark.driver.memory), or make batches smaller"
)
_WHY_EXITED = "a function has ended its process (os._exit), crashed in native code, or was killed for want of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReason:
    """Failure by its name and in words. `lost_rdd` is Spark's id of the materialised rows that are gone."""

    name: str
    text: str
    lost_rdd: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Kind of failure: `mark` matches Spark's text; its groups are filled into our `text`.

    No restart mends a fatal one.
    """

    name: str
    mark: re.Pattern[str]
    text: str
    fatal: bool = False


# The first that fits: Spark wraps the cause of a lost executor into its loss, and a lost executor into a lost batch.
_KNOWN = (
    _Known(
        name="SessionStoppedError",
        mark=re.compile(r"Cannot call methods on a stopped SparkContext"),
        text="rows of a Spark session were asked for that was stopped; a DataFrame that was made in it cannot be read"
        " any more: start the program again",
        fatal=True,
    ),
    _Known(
        name="ExecutorOutOfMemoryError",
        mark=re.compile(
            r"ExecutorLostFailure \(executor (?P<executor>\S+) [^\n]*?"
            r"(?:exit(?:ed with)? code:? (?:52|137)\b|memory limits|memoryOverhead|OOMKilled|OutOfMemory)"
        ),
        text="executor {executor} has run out of memory and is gone: " + _MEMORY,
    ),
    _Known(
        name="OutOfMemoryError",
        mark=re.compile(
            r"java\.lang\.OutOfMemoryError: (?P<what>[^\n]+)|SparkOutOfMemoryError: (?P<spark>[^\n]+)"
            r"|\[UNABLE_TO_ACQUIRE_MEMORY\] (?P<acquire>[^\n]+)"
        ),
        text="Spark has run out of memory ({what}{spark}{acquire}): " + _MEMORY,
    ),
    _Known(
        name="ExecutorLostError",
        mark=re.compile(r"ExecutorLostFailure \(executor (?P<executor>\S+) [^\n]*?Reason: (?P<reason>[^\n]+)"),
        text="executor {executor} was lost: {reason}",
    ),
    _Known(
        name="LostBatchError",
        mark=re.compile(r"Checkpoint block rdd_(?P<rdd>\d+)_\d+ not found"),
        text="rows that were computed before are gone with the executor that held them",
    ),
    _Known(
        name="FetchFailedError",
        mark=re.compile(
            r"(?:FetchFailed\(|FetchFailedException|MetadataFetchFailedException)[^\n]*?(?P<said>Failed to [^\n]+"
            r"|Missing an output location[^\n]*)?(?:\n|$)"
        ),
        text="rows of a shuffle cannot be fetched from the executor that has written them: {said}",
    ),
    _Known(
        name="WorkerExitedError",
        mark=re.compile(r"Python worker (?:exited unexpectedly|process terminated)"),
        text="Python worker exited unexpectedly (crashed): " + _WHY_EXITED,
    ),
    _Known(
        name="DiskFullError",
        mark=re.compile(r"(?P<said>No space left on device|Disk quota exceeded)"),
        text="{said}: make room, there or where executors keep rows (spark.local.dir)",
    ),
    _Known(
        name="StorageError",
        mark=re.compile(
            r"IOException: (?P<said>Mkdirs failed to create \S+|[^\n]*?(?:Input/output error|Stale file handle"
            r"|Transport endpoint is not connected|Read-only file system))"
        ),
        text="{said}: the storage refuses, or is not there",
    ),
)


OF_STORAGE = frozenset(("DiskFullError", "StorageError"))
"""The names of failures of one storage."""
FATAL = frozenset(known.name for known in _KNOWN if known.fatal)
"""The names of failures that no restart can mend."""


def spark_reason(text: str) -> SparkReason | None:
    """Return the failure of Spark in `text`, its whole message; None where there is none."""
    for known in _KNOWN:
        found = known.mark.search(text)
        if found is not None:
            said = {name: (group or "").strip() for name, group in found.groupdict().items()}
            lost = said.get("rdd")
            told = known.text.format(**said).rstrip(": ")
            return SparkReason(name=known.name, text=told, lost_rdd=int(lost) if lost else None)
    return None
