"""Failures of Spark itself: the texts that identify them, their names in flykka, and whether a restart can help.

Exceptions of a user's function in a Python worker are not included. Whether the session still runs is determined in
`spark_sessions` and not by a text, because without a session every call fails differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MEMORY = (
    "give executors more (spark.executor.memory, spark.executor.memoryOverhead; at a local master"
    " spark.driver.memory), or make batches smaller"
)
_WHY_EXITED = "a function has ended its process (os._exit), crashed in native code, or was killed for lack of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReason:
    """`lost_rdd` is Spark's id of lost materialised rows."""

    name: str
    text: str
    lost_rdd: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReasonPattern:
    """A known failure: `mark` matches Spark's message, and its groups are inserted into flykka's `text`.

    A restart does not help with a `fatal` failure.
    """

    name: str
    mark: re.Pattern[str]
    text: str
    fatal: bool = False


# The first match wins: Spark's message about a lost executor contains the cause, and that about a lost batch contains
# both.
_PATTERNS = (
    _ReasonPattern(
        name="SessionStoppedError",
        mark=re.compile(r"Cannot call methods on a stopped SparkContext"),
        text="rows of a stopped Spark session were requested; its DataFrames cannot be read any more: start the"
        " program again",
        fatal=True,
    ),
    _ReasonPattern(
        name="ExecutorOutOfMemoryError",
        mark=re.compile(
            r"ExecutorLostFailure \(executor (?P<executor>\S+) [^\n]*?"
            r"(?:exit(?:ed with)? code:? (?:52|137)\b|memory limits|memoryOverhead|OOMKilled|OutOfMemory)"
        ),
        text="executor {executor} has run out of memory and is gone: " + _MEMORY,
    ),
    _ReasonPattern(
        name="OutOfMemoryError",
        mark=re.compile(
            r"java\.lang\.OutOfMemoryError: (?P<what>[^\n]+)|SparkOutOfMemoryError: (?P<spark>[^\n]+)"
            r"|\[UNABLE_TO_ACQUIRE_MEMORY\] (?P<acquire>[^\n]+)"
        ),
        text="Spark has run out of memory ({what}{spark}{acquire}): " + _MEMORY,
    ),
    _ReasonPattern(
        name="ExecutorLostError",
        mark=re.compile(r"ExecutorLostFailure \(executor (?P<executor>\S+) [^\n]*?Reason: (?P<reason>[^\n]+)"),
        text="executor {executor} was lost: {reason}",
    ),
    _ReasonPattern(
        name="LostBatchError",
        mark=re.compile(r"Checkpoint block rdd_(?P<rdd>\d+)_\d+ not found"),
        text="rows that were computed earlier are lost with the executor that stored them",
    ),
    _ReasonPattern(
        name="FetchFailedError",
        mark=re.compile(
            r"(?:FetchFailed\(|FetchFailedException|MetadataFetchFailedException)[^\n]*?(?P<detail>Failed to [^\n]+"
            r"|Missing an output location[^\n]*)?(?:\n|$)"
        ),
        text="rows of a shuffle cannot be fetched from the executor that wrote them: {detail}",
    ),
    _ReasonPattern(
        name="WorkerExitedError",
        mark=re.compile(r"Python worker (?:exited unexpectedly|process terminated)"),
        text="Python worker exited unexpectedly (crashed): " + _WHY_EXITED,
    ),
    _ReasonPattern(
        name="DiskFullError",
        mark=re.compile(r"(?P<detail>No space left on device|Disk quota exceeded)"),
        text="{detail}: free space there, or where executors store rows (spark.local.dir)",
    ),
    _ReasonPattern(
        name="StorageError",
        mark=re.compile(
            r"IOException: (?P<detail>Mkdirs failed to create \S+|[^\n]*?(?:Input/output error|Stale file handle"
            r"|Transport endpoint is not connected|Read-only file system))"
        ),
        text="{detail}: the storage refuses access, or is unavailable",
    ),
)


OF_STORAGE = frozenset(("DiskFullError", "StorageError"))
FATAL = frozenset(pattern.name for pattern in _PATTERNS if pattern.fatal)


def spark_reason(text: str) -> SparkReason | None:
    for kind in _PATTERNS:
        match = kind.mark.search(text)
        if match is not None:
            groups = {name: (group or "").strip() for name, group in match.groupdict().items()}
            lost = groups.get("rdd")
            description = kind.text.format(**groups).rstrip(": ")
            return SparkReason(name=kind.name, text=description, lost_rdd=int(lost) if lost else None)
    return None
