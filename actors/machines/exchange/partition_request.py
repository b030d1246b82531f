"""Retries the request of a partition that is not there yet.

Tasks of a job are deployed at the same time, and a consumer may ask before its producer runs. Follows the back-off of
Flink's InputChannel: at once, then after `initial_ms`, doubled each time, `max_ms` at most; the request after that is
not made. An `initial_ms` of 0 means no second request.
"""

from __future__ import annotations

INITIAL_BACKOFF_MS = 100
MAX_BACKOFF_MS = 10_000


class PartitionRequestBackoff:
    """The delays of one channel's requests."""

    __slots__ = ("_max_ms", "_next_ms")

    def __init__(self, initial_ms: int = INITIAL_BACKOFF_MS, max_ms: int = MAX_BACKOFF_MS) -> None:
        if not 0 <= initial_ms <= max_ms:
            raise ValueError(f"the back-off must grow from 0 or more: initial {initial_ms} ms, maximum {max_ms} ms")
        self._max_ms = max_ms
        self._next_ms: int | None = initial_ms or None

    def next_delay_ms(self) -> int | None:
        """Milliseconds to wait before the next request; None when there is to be none."""
        delay = self._next_ms
        if delay is not None:
            self._next_ms = min(2 * delay, self._max_ms) if delay < self._max_ms else None
        return delay
