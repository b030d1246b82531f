"""Times of latency markers from their source to the task (Flink's LatencyStats).

A marker waits where rows wait, behind the stages and batches before it, but not for other channels: what it took is
about what rows took that were read when it was sent, without the time that they spend in state.
"""

from __future__ import annotations

from collections import deque

from flykka.messages.tasks.exchange import LatencyMarker
from flykka.messages.tasks.task import LatencyStatistics

HISTORY_SIZE = 128
"""The last markers of each source subtask count (Flink's `metrics.latency.history-size`)."""


class LatencyStats:
    """The latencies at one attempt, by the subtask of the source that they were sent from."""

    __slots__ = ("_latencies", "_statistics")

    def __init__(self) -> None:
        self._latencies: dict[tuple[str, int], deque[int]] = {}
        self._statistics: dict[tuple[str, int], LatencyStatistics] = {}

    def report_latency(self, marker: LatencyMarker, now: int) -> None:
        """A marker is here."""
        source = marker.operator_id, marker.subtask
        self._latencies.setdefault(source, deque(maxlen=HISTORY_SIZE)).append(max(0, now - marker.marked_ms))
        self._statistics.pop(source, None)

    def statistics(self) -> tuple[LatencyStatistics, ...]:
        """Statistics per source subtask; only those with new markers are computed again."""
        for source, latencies in self._latencies.items():
            if source not in self._statistics:
                self._statistics[source] = _statistics(*source, sorted(latencies))
        return tuple(self._statistics.values())


def _statistics(operator_id: str, subtask: int, latencies: list[int]) -> LatencyStatistics:
    last = len(latencies) - 1
    return LatencyStatistics(
        operator_id=operator_id,
        subtask=subtask,
        count=len(latencies),
        min_ms=latencies[0],
        max_ms=latencies[-1],
        median_ms=latencies[last // 2],
        p95_ms=latencies[last * 95 // 100],
        p99_ms=latencies[last * 99 // 100],
    )
