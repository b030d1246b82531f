"""Checkpoint ids: a counter in the store, from which several ids are drawn in advance.

A new coordinator of the job continues after the ids that were drawn. Follows Flink's ZooKeeperCheckpointIDCounter,
which draws one id at a time.
"""

from __future__ import annotations

from collections import deque

from flykka.messages.control.checkpoint_coordination import CheckpointIds

DRAWN_AT_ONCE = 8
"""The number of ids drawn together. The next coordinator skips at most this many."""


class DrawnCheckpointIds:
    """The ids that were drawn and not used, lowest first."""

    def __init__(self) -> None:
        self._ids: deque[int] = deque()
        self._last = 0

    @property
    def next_drawn(self) -> int:
        return self._last + 1

    @property
    def are_few(self) -> bool:
        """True if more ids should be drawn with the next call to the store."""
        return len(self._ids) <= DRAWN_AT_ONCE // 2

    def add(self, ids: CheckpointIds) -> None:
        """Add drawn ids. Ids only grow: if replies to draws arrive out of order, some ids stay unused."""
        end = ids.first + ids.count
        self._ids.extend(range(max(ids.first, self.next_drawn), end))
        self._last = max(self._last, end - 1)

    def skip_to(self, checkpoint_id: int) -> None:
        """Discard ids below this one, because the job starts from a checkpoint that has used them."""
        while self._ids and self._ids[0] < checkpoint_id:
            self._ids.popleft()

    def next_id(self) -> int | None:
        return self._ids.popleft() if self._ids else None
