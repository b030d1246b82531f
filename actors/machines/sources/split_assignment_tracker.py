"""Tracks the splits assigned since each checkpoint, by subtask (Flink's SplitAssignmentTracker).

A split that a reader got before its part in a completed checkpoint is in that checkpoint as the reader's state; what it
got since is known here alone, and is taken back when the subtask restarts from the checkpoint.
"""

from __future__ import annotations

from flykka.messages.tasks.source import SourceSplit

NumberedSplit = tuple[SourceSplit, int]
"""A split, and how many had gone out before it when it first went out."""

Assignments = dict[int, list[NumberedSplit]]
"""Splits by subtask, in the order in which they went out."""


class SplitAssignmentTracker:
    """The splits of one source that no completed checkpoint holds as state of a reader."""

    def __init__(self) -> None:
        self._uncheckpointed: Assignments = {}
        self._by_checkpoint: dict[int, Assignments] = {}

    def record(self, subtask: int, split: SourceSplit, number: int) -> None:
        """A split has gone out."""
        self._uncheckpointed.setdefault(subtask, []).append((split, number))

    def on_checkpoint(self, checkpoint_id: int) -> None:
        """Note a checkpoint: splits assigned so far belong to it, should it complete."""
        self._by_checkpoint[checkpoint_id], self._uncheckpointed = self._uncheckpointed, {}

    def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Up to this checkpoint the readers' states know."""
        for each in [each for each in self._by_checkpoint if each <= checkpoint_id]:
            del self._by_checkpoint[each]

    def take_back(self, subtask: int, restored_checkpoint_id: int | None) -> tuple[NumberedSplit, ...]:
        """Take back the splits assigned behind the checkpoint that the subtask restarts from (None: all), in order."""
        since = [
            assignments
            for checkpoint_id, assignments in sorted(self._by_checkpoint.items())
            if restored_checkpoint_id is None or checkpoint_id > restored_checkpoint_id
        ]
        return tuple(split for each in (*since, self._uncheckpointed) for split in each.pop(subtask, ()))

    def check(self) -> None:
        """Assert that nothing has gone out twice."""
        ids = [
            split.split_id
            for assignments in (*self._by_checkpoint.values(), self._uncheckpointed)
            for splits in assignments.values()
            for split, _ in splits
        ]
        assert len(ids) == len(set(ids)), "a split went out twice"
