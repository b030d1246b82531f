"""A coordinator's way to what outlives it: files in the checkpoint storage, and pointers to them in the store.

Every call may block. Files come before the pointers to them and go behind them, so that the next coordinator
finds nothing in the store that is not there. What a call cannot do because somebody else leads raises
`LeadershipLostError`, and nothing is deleted with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from flykka.actors.checkpoint_storage.job_checkpoints import JobCheckpoints
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import CheckpointNotFoundError, StoreUnavailableError
from flykka.actors.machines.checkpoint.id_counter import DRAWN_AT_ONCE
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIds,
    CheckpointIdsDrawn,
    CheckpointsRecovered,
    MetadataRead,
    MetadataWritten,
)
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.wire.ids import JobId


class DurableCheckpoints:
    """The checkpoints of one job, for the coordinator that calls itself `owner`."""

    def __init__(self, storage: CheckpointStorage, checkpoints: JobCheckpoints, owner: str) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._owner = owner

    def recover(self) -> CheckpointsRecovered:
        """Take the checkpoints over from the coordinator before. Raises `CheckpointStorageError`."""
        recovered = self._checkpoints.recover(self._owner, DRAWN_AT_ONCE)
        completed = tuple(_read(pointer.path) for pointer in recovered.completed)
        adopted = None
        if recovered.adopted is not None:
            # What a job has begun with may go as soon as it has a checkpoint of its own.
            with suppress(*([CheckpointNotFoundError] if completed else [])):
                adopted = _read(recovered.adopted.path)
        return CheckpointsRecovered(ids=_ids_from(recovered.first_id), completed=completed, adopted=adopted)

    def adopt(self, path: str, version: int, *, allow_unmatched: bool) -> MetadataRead:
        """Begin with the checkpoint of an earlier job, and behind its id. Raises `CheckpointStorageError`."""
        checkpoint = _read(path)
        pointer = CheckpointPointer(checkpoint_id=checkpoint.checkpoint_id, path=checkpoint.path)
        self._checkpoints.adopt(self._owner, pointer)
        first = self._checkpoints.draw_ids(self._owner, DRAWN_AT_ONCE, at_least=checkpoint.checkpoint_id + 1)
        return MetadataRead(
            version=version, checkpoint=checkpoint, allow_non_restored_state=allow_unmatched, ids=_ids_from(first)
        )

    def draw_ids(self, at_least: int) -> CheckpointIdsDrawn:
        """Draw some ids, none below `at_least`."""
        first = self._checkpoints.draw_ids(self._owner, DRAWN_AT_ONCE, at_least)
        return CheckpointIdsDrawn(ids=_ids_from(first))

    def complete(
        self, checkpoint: CompletedCheckpoint, target_location: str | None, draws: int | None
    ) -> MetadataWritten:
        """Write the metadata, and with its pointer make the checkpoint complete; draw ids from `draws` on beside it.

        Where the store cannot be used the metadata goes again: nobody may find it.
        """
        # First: what comes behind the pointer must not fail, for the checkpoint is complete then.
        ids = None if draws is None else self._drawn(draws)
        path = self._storage.write_metadata(checkpoint, target_location)
        try:
            pointer = CheckpointPointer(checkpoint_id=checkpoint.checkpoint_id, path=path)
            self._checkpoints.add(self._owner, pointer)
        except StoreUnavailableError:
            self._storage.drop_checkpoint(path)
            raise
        return MetadataWritten(checkpoint_id=checkpoint.checkpoint_id, path=path, ids=ids)

    def write(self, checkpoint: CompletedCheckpoint, target_location: str | None) -> MetadataWritten:
        """Write the metadata of a savepoint, which is the user's and not the store's."""
        path = self._storage.write_metadata(checkpoint, target_location)
        return MetadataWritten(checkpoint_id=checkpoint.checkpoint_id, path=path)

    def dispose(self, retained: Sequence[int], checkpoints: Sequence[str], state: Sequence[str]) -> None:
        """Delete checkpoints, out of the store and then for good, and behind them state that they referred to."""
        self._checkpoints.remove(self._owner, retained)
        self._storage.dispose(checkpoints, state)

    def delete_job(self, job_id: JobId, continued: str | None) -> None:
        """Delete everything of the job, out of the store and then for good."""
        self._checkpoints.remove_all(self._owner)
        self._storage.delete_job(job_id, continued)

    def _drawn(self, at_least: int) -> CheckpointIds | None:
        try:
            return self.draw_ids(at_least).ids
        except StoreUnavailableError:
            # They were drawn ahead of their use. When they are needed they are drawn again.
            return None


def _ids_from(first: int) -> CheckpointIds:
    return CheckpointIds(first=first, count=DRAWN_AT_ONCE)


def _read(path: str) -> CompletedCheckpoint:
    # A savepoint, or another job's checkpoint, may be in another storage.
    return CheckpointStorage(path).read_metadata(path)
