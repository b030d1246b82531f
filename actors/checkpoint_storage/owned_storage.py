"""The checkpoint storage of a job that this process runs: nothing is completed or deleted once another one does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.tags import trace_tag


@trace_tag("checkpoint_storage.owned")
class OwnedCheckpointStorage(CheckpointStorage):
    """Calls `confirm_owner` first, which raises `OwnershipLostError` if another process runs the job by now."""

    def __init__(self, settings: CheckpointingSettings, confirm_owner: Callable[[], object]) -> None:
        super().__init__(settings.directory, settings.permissions, fsync=settings.fsync)
        self._confirm_owner = confirm_owner

    def write_metadata(self, checkpoint: CompletedCheckpoint, target_location: str | None = None) -> str:
        self._confirm_owner()
        return super().write_metadata(checkpoint, target_location)

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        self._confirm_owner()
        super().dispose(checkpoints, state)

    def delete_job(self, job_id: JobId, continued: str | None = None) -> None:
        self._confirm_owner()
        super().delete_job(job_id, continued)
