"""Properties of checkpoints: their type, and when a completed checkpoint is discarded.

Mirrors Flink's CheckpointProperties and CheckpointRetentionPolicy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions, SnapshotType
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import CheckpointingMode, CheckpointingSettings, ExternalizedCheckpointRetention

DISCARDED_WHEN: dict[ExternalizedCheckpointRetention, frozenset[JobStatus]] = {
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: frozenset(
        {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED}
    ),
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: frozenset(
        {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.SUSPENDED}
    ),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: frozenset({JobStatus.FINISHED}),
}
"""The final states of a job in which its completed checkpoints are deleted, for each retention policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """The type of a checkpoint, and when it is deleted once it is complete.

    A `forced` checkpoint ignores the limit of concurrent checkpoints and the pause between them.
    """

    options: CheckpointOptions = field(default_factory=CheckpointOptions)
    forced: bool = False
    discard_subsumed: bool = True
    discarded_when: frozenset[JobStatus] = DISCARDED_WHEN[ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION]

    @property
    def is_savepoint(self) -> bool:
        return self.options.snapshot_type is SnapshotType.SAVEPOINT

    @property
    def is_final(self) -> bool:
        """True if the job ends with it (Flink's synchronous savepoint, and the last checkpoint of a finished input)."""
        return self.options.is_final

    @property
    def can_be_subsumed(self) -> bool:
        """True if the checkpoint is aborted when a newer one completes while it is pending."""
        return not self.forced and not self.is_savepoint


def for_checkpoint(
    retention: ExternalizedCheckpointRetention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    *,
    forced: bool = False,
    is_full: bool = False,
) -> CheckpointProperties:
    """Return the properties of a checkpoint that may have to wait for its turn and is deleted when it is not needed."""
    options = CheckpointOptions(snapshot_type=SnapshotType.FULL_CHECKPOINT if is_full else SnapshotType.CHECKPOINT)
    return CheckpointProperties(options=options, forced=forced, discarded_when=DISCARDED_WHEN[retention])


def for_savepoint(target_location: str | None = None, *, forced: bool = True) -> CheckpointProperties:
    """Return the properties of a savepoint, taken while the job continues. The user has to delete the savepoint."""
    options = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT, target_location=target_location)
    return _kept(options, forced=forced)


def for_sync_savepoint(
    target_location: str | None = None, *, drain: bool = False, forced: bool = True
) -> CheckpointProperties:
    options = CheckpointOptions(
        snapshot_type=SnapshotType.SAVEPOINT, target_location=target_location, is_final=True, drain=drain
    )
    return _kept(options, forced=forced)


def for_final_checkpoint(*, drain: bool = False) -> CheckpointProperties:
    """Return the properties of the checkpoint with which a job ends, at the end of its input or by a stop."""
    return CheckpointProperties(options=CheckpointOptions(is_final=True, drain=drain), forced=True)


def with_alignment(properties: CheckpointProperties, settings: CheckpointingSettings) -> CheckpointProperties:
    """Return the properties with the barrier alignment that the job's settings require (CheckpointOptions.forConfig).

    Savepoints are aligned, so that they may be restored with any parallelism. The last checkpoint of a job is aligned,
    too, because overtaken batches would be processed after the barrier, when its tasks no longer read.
    """
    return replace(properties, options=_aligned(properties.options, settings))


def _aligned(options: CheckpointOptions, settings: CheckpointingSettings) -> CheckpointOptions:
    if settings.mode is CheckpointingMode.AT_LEAST_ONCE:
        return replace(options, alignment=AlignmentType.AT_LEAST_ONCE)
    if not settings.unaligned or options.is_final or options.snapshot_type is SnapshotType.SAVEPOINT:
        return replace(options, alignment=AlignmentType.ALIGNED)
    if settings.aligned_timeout_ms == 0:
        return replace(options, alignment=AlignmentType.UNALIGNED)
    return replace(options, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=settings.aligned_timeout_ms)


def _kept(options: CheckpointOptions, *, forced: bool) -> CheckpointProperties:
    return CheckpointProperties(options=options, forced=forced, discard_subsumed=False, discarded_when=frozenset())
