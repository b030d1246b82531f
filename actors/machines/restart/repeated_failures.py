"""Recognises repeated failures, and counts those since the last checkpoint.

An error that lies in the program or in its rows comes back after each restart: without a checkpoint in between the
next attempt reads the same rows with the same code. What lies in the environment, a TaskManager that is lost, a storage
that does not answer, may be over by then: it is counted by nobody.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from flykka.messages.wire.failure import SerializedThrowable

MAX_SIGNATURES = 64
"""So many different failures are counted at a time, those that were seen last."""

_ENVIRONMENT = frozenset(
    {
        # Of the cluster: a TaskManager, an actor or a connection between tasks is gone.
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
        # Of Spark: an executor is gone, and the rows that it held.
        "ExecutorLostError",
        "ExecutorOutOfMemoryError",
        "FetchFailedError",
        "LostBatchError",
        # Of the storage and the network.
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

# What differs each time: the value at which it failed, for which of several tasks of Spark fails first is chance; ids,
# addresses, the numbers that are given to attempts, and the files of one attempt.
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
    """The signature of equal failures; the `message` is without the parts that differ each time."""

    vertex: str | None
    type_name: str
    message: str


def failure_signature(vertex: str | None, cause: SerializedThrowable) -> FailureSignature | None:
    """The key of the failure of a vertex (None: of the job as a whole); None where it lies in the environment."""
    if cause.lost_partition is not None or is_of_environment(cause.type_name):
        return None
    message = _VOLATILE.sub("#", cause.message)
    return FailureSignature(vertex=vertex, type_name=cause.type_name, message=message)


def is_of_environment(type_name: str) -> bool:
    """True if a failure of this type is one of the job's environment, and not of the job."""
    return type_name in _ENVIRONMENT


class RepeatedFailures:
    """Counts the failures of one job since its last checkpoint was completed.

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
        """Count a failure; why what is to be `restarted` for it is not, or None where it may be.

        Regions that restart apart are counted apart: what befalls many of them at once has befallen each of them once.
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
            f"failed {times} {'time' if times == 1 else 'times'}{in_a_row} with the same failure, no checkpoint"
            " completed in between"
        )

    def checkpoint_completed(self) -> None:
        """The job has got on: what it fails with from now on counts from one."""
        self._counts.clear()
