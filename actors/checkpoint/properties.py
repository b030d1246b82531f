"""What kind of checkpoint a request asks for, and what becomes of a completed one.

Mirrors Flink's CheckpointProperties and CheckpointRetentionPolicy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.messages.checkpoint import CheckpointOptions, SnapshotType
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import ExternalizedCheckpointRetention

DISCARDED_WHEN: dict[ExternalizedCheckpointRetention, frozenset[JobStatus]] = {
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: frozenset(
        {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED}
    ),
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: frozenset(
        {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.SUSPENDED}
    ),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: frozenset({JobStatus.FINISHED}),
}
"""The final states of a job in which its completed checkpoints are deleted; one that is subsumed always goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """`periodic` requests come from the scheduler; `final` is the one with which the job ends."""

    options: CheckpointOptions = field(default_factory=CheckpointOptions)
    periodic: bool = False
    final: bool = False

    @property
    def is_savepoint(self) -> bool:
        """Whether it belongs to the user: never subsumed, subsumes nothing, never counted or deleted."""
        return self.options.snapshot_type is SnapshotType.SAVEPOINT

    @property
    def is_forced(self) -> bool:
        """Whether it ignores the queue, the limit of concurrent checkpoints and the pause."""
        return self.is_savepoint or self.final
