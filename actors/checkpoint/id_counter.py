"""Where checkpoint ids come from: 1, 2, 3, ... for as long as the job lives, across restarts of its tasks.

Mirrors Flink's StandaloneCheckpointIDCounter. It stands beside the coordinator, not in it, because a counter that is
shared with other machines answers late.
"""

from __future__ import annotations


class CheckpointIdCounter:
    """The next id and nothing else."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def get(self) -> int:
        """The id that is drawn next."""
        return self._next

    def get_and_increment(self) -> int:
        """Draw an id."""
        drawn = self._next
        self._next += 1
        return drawn

    def skip_to(self, checkpoint_id: int) -> None:
        """Draw no id below this one any more: the job starts from a checkpoint that has used them."""
        self._next = max(self._next, checkpoint_id)
