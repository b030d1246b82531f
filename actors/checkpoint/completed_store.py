"""The completed checkpoints that are retained, oldest first. Mirrors Flink's CompletedCheckpointStore."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

from flykka.messages.checkpoint_metadata import CompletedCheckpoint


class CompletedCheckpointStore:
    """At most `retained` checkpoints; a newer one subsumes the oldest."""

    def __init__(self, retained: int) -> None:
        if retained < 1:
            raise ValueError(f"at least one completed checkpoint has to be retained, not {retained}")
        self._retained = retained
        self._checkpoints: deque[CompletedCheckpoint] = deque()

    def __iter__(self) -> Iterator[CompletedCheckpoint]:
        return iter(self._checkpoints)

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __contains__(self, checkpoint_id: int) -> bool:
        return any(checkpoint.checkpoint_id == checkpoint_id for checkpoint in self._checkpoints)

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The one to restore from."""
        return self._checkpoints[-1] if self._checkpoints else None

    def add(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Retain it and return those that it subsumes. Ids grow."""
        latest = self.latest
        assert latest is None or latest.checkpoint_id < checkpoint.checkpoint_id, "completed checkpoints come in order"
        self._checkpoints.append(checkpoint)
        return [self._checkpoints.popleft() for _ in range(len(self._checkpoints) - self._retained)]

    def keep_latest(self) -> list[CompletedCheckpoint]:
        """Retain the latest only and return the others."""
        return [self._checkpoints.popleft() for _ in range(len(self._checkpoints) - 1)]

    def check(self) -> None:
        """Raise `AssertionError` where too many are retained or their ids do not grow."""
        ids = [checkpoint.checkpoint_id for checkpoint in self._checkpoints]
        assert len(ids) <= self._retained
        assert all(older < newer for older, newer in pairwise(ids)), ids
