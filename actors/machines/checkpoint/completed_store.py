"""The completed checkpoints that are retained, oldest first. Mirrors Flink's CompletedCheckpointStore."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from itertools import pairwise

from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint, for_savepoint
from flykka.messages.checkpointing.checkpoint import SnapshotType
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.control.job import JobStatus


class CompletedCheckpointStore:
    """At most `retained` checkpoints; a newer one subsumes the oldest."""

    def __init__(
        self,
        retained: int,
        properties: CheckpointProperties | None = None,
    ) -> None:
        """`properties` are those of the job's checkpoints: when they are discarded."""
        if retained < 1:
            raise ValueError(f"at least one completed checkpoint has to be retained, not {retained}")
        self._retained = retained
        self._properties = properties or for_checkpoint()
        self._checkpoints: list[CompletedCheckpoint] = []

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
        """Retain it and return those that it subsumes."""
        assert checkpoint.checkpoint_id not in self, f"checkpoint {checkpoint.checkpoint_id} completes once"
        insort(self._checkpoints, checkpoint, key=lambda retained: retained.checkpoint_id)
        too_many = max(0, len(self._checkpoints) - self._retained)
        subsumed, self._checkpoints = self._checkpoints[:too_many], self._checkpoints[too_many:]
        return subsumed

    def is_discarded_when_subsumed(self, checkpoint: CompletedCheckpoint) -> bool:
        """True if the checkpoint is deleted when it is subsumed."""
        return self._properties_of(checkpoint).discard_subsumed

    def shutdown(self, status: JobStatus) -> list[CompletedCheckpoint]:
        """The job has ended in this status: those that stay. The store is empty then."""
        checkpoints, self._checkpoints = self._checkpoints, []
        return [
            checkpoint for checkpoint in checkpoints if status not in self._properties_of(checkpoint).discarded_when
        ]

    def check(self) -> None:
        """Raise `AssertionError` where too many are retained or their ids do not grow."""
        ids = [checkpoint.checkpoint_id for checkpoint in self._checkpoints]
        assert len(ids) <= self._retained
        assert all(older < newer for older, newer in pairwise(ids)), ids

    def _properties_of(self, checkpoint: CompletedCheckpoint) -> CheckpointProperties:
        return for_savepoint() if is_savepoint(checkpoint) else self._properties


def is_savepoint(checkpoint: CompletedCheckpoint) -> bool:
    """True if it is the user's: it is never discarded."""
    return checkpoint.snapshot_type is SnapshotType.SAVEPOINT
