"""Recognises repeated failures, and counts them since the last checkpoint.

An error in the program or in its rows occurs again after each restart, because without a new checkpoint the next
attempt reads the same rows with the same code. Failures of the environment (a lost TaskManager, a storage system that
does not respond) may not occur again, and are not counted.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from flykka.messages.wire.failure import SerializedThrowable

MAX_SIGNATURES = 64
"""The maximum number of different failures that are counted. The most recent failures are kept."""

_ENVIRONMENT = frozenset(
    {
        # Cluster failures: a TaskManager, an actor or a connection between tasks is lost.
        "BridgeLostError",
        "HeartbeatTimeoutError",
        "JobMasterLostError",
        "LeaderLostError",
        "PartitionConnectionError",
        "PartitionNotFoundError",
        "SlotAllocationError",
        "SlotGivenUpError",
        "SlotLostError",
        "TaskCancellationTimeoutError",
        # Spark failures: an executor is lost with its rows.
        "ExecutorLostError",
        "ExecutorOutOfMemoryError",
        "FetchFailedError",
        "LostBatchError",
        # Failures of the storage and the network.
        "BrokenPipeError",
        "ConnectException",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "DiskFullError",
        "NoRouteToHostException",
        "SocketException",
        "SocketTimeoutException",
        "StorageError",
        "TimeoutError",
        "UnknownHostException",
    }
)

# The parts of messages that differ between equal failures: values, because any of several Spark tasks may fail first;
# ids, addresses, attempt numbers, and the files of one attempt.
_VOLATILE = re.compile(
    r"(?<!\w)'[^'\n]*'(?!\w)"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"
    r"|\b0x[0-9a-fA-F]+|@[0-9a-f]{5,8}\b|\bTID \d+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\blocalhost:\d+"
    r"|(?<=\b(?i:task) )\d+(?:\.\d+)?|(?<=\b(?i:stage) )\d+(?:\.\d+)?|(?<=\b(?i:attempt) )\d+"
    r"|(?<=\b(?i:job) )\d+|(?<=\b(?i:batch) )\d+|(?<=\b(?i:checkpoint) )\d+|(?<=\b(?i:one) )\d+(?= with)"
    r"|(?<=\b(?i:port) )\d+|(?<=\b(?i:pid) )\d+|(?<=\brdd_)\d+_\d+|(?<=#)\d+L?\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSignature:
    """The signature of equal failures. `message` lacks the parts that differ each time."""

    vertex: str | None
    type_name: str
    message: str


def failure_signature(vertex: str | None, cause: SerializedThrowable) -> FailureSignature | None:
    """Return the signature of a failure of a vertex (`None`: the whole job), or `None` for an environment failure."""
    if cause.lost_partition is not None or is_of_environment(cause.type_name):
        return None
    message = _VOLATILE.sub("#", cause.message)
    return FailureSignature(vertex=vertex, type_name=cause.type_name, message=message)


def is_of_environment(type_name: str) -> bool:
    return type_name in _ENVIRONMENT


class RepeatedFailures:
    """Counts the failures of one job since its last completed checkpoint.

    Raises:
        ValueError: the limit is below 1.
    """

    __slots__ = ("_counts", "_limit")

    def __init__(self, limit: int | None) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"the number of times that a job may fail with the same failure is 1 or more, not {limit}")
        self._limit = limit
        self._counts: OrderedDict[tuple[FailureSignature, Hashable], int] = OrderedDict()

    def count(self, vertex: str | None, cause: SerializedThrowable, restarted: Hashable = None) -> str | None:
        """Count a failure. Returns why the tasks `restarted` are not restarted, or `None` if they may be.

        Regions that restart separately are counted separately: a failure of many regions counts once for each region.
        """
        signature = failure_signature(vertex, cause)
        if self._limit is None or signature is None:
            return None
        times = self._counts[signature, restarted] = self._counts.pop((signature, restarted), 0) + 1
        if len(self._counts) > MAX_SIGNATURES:
            self._counts.popitem(last=False)
        if times < self._limit:
            return None
        in_a_row = " in a row" if len(self._counts) == 1 else ""
        return (
            f"failed {times} {'time' if times == 1 else 'times'}{in_a_row} with the same failure, without a completed"
            " checkpoint in between"
        )

    def checkpoint_completed(self) -> None:
        self._counts.clear()
