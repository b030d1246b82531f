"""The part of a CheckpointCoordinator that uses the checkpoint storage and the store (Flink's
CheckpointStorageCoordinatorView).

It calls them on the I/O pool and turns the results into events. If the store is unavailable, recovery is retried until
it is back. Files are written before the pointers to them and deleted after the pointers, so that the next coordinator
never finds a pointer without its files. If another process leads, or another coordinator owns the job, every call ends
with `CheckpointLeadershipLost` and deletes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import CheckpointFileNotFoundError, LeadershipLostError, StoreUnavailableError
from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEvent
from flykka.actors.machines.checkpoint.id_counter import DRAWN_AT_ONCE, DrawnCheckpointIds
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIds,
    CheckpointIdsDrawn,
    CheckpointIdsNotDrawn,
    CheckpointLeadershipLost,
    CheckpointsNotRecovered,
    CheckpointsRecovered,
    CheckpointStoreRetryDue,
    CheckpointStoreUnavailable,
    Disposed,
    MetadataRead,
    MetadataReadFailed,
    MetadataWriteFailed,
    MetadataWritten,
)
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

_log = logging.getLogger(__name__)

STORE_RETRY_MS = 1_000

CheckpointStoreMessage = (
    MetadataWritten
    | MetadataWriteFailed
    | Disposed
    | CheckpointIdsDrawn
    | CheckpointIdsNotDrawn
    | CheckpointsRecovered
    | CheckpointsNotRecovered
    | MetadataRead
    | CheckpointStoreUnavailable
    | CheckpointStoreRetryDue
    | CheckpointLeadershipLost
)


class CheckpointStorageView:
    def __init__(
        self, context: ActorContext, job_id: JobId, storage: CheckpointStorage, checkpoints: CheckpointPointers
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._storage = storage
        self._checkpoints = checkpoints
        self._owner = context.new_id("checkpoint-coordinator")
        self._ids = DrawnCheckpointIds()
        self._is_id_awaited = False

    def start_recovery(self) -> None:
        self._run(self.recover, _not_recovered)

    def on_message(self, message: CheckpointStoreMessage) -> CoordinatorEvent | None:
        match message:
            case MetadataWritten(ids=ids):
                self._add_ids(ids)
                return message
            case Disposed(cause=cause):
                if cause is not None:
                    _log.warning("files of job %s may not have been deleted: %s", self._job_id, cause.message)
                return message
            case CheckpointIdsDrawn(ids=ids):
                self._add_ids(ids)
                return self._id()
            case CheckpointsRecovered(ids=ids):
                self._add_ids(ids)
                return message
            case MetadataRead(checkpoint=checkpoint, ids=ids):
                self._ids.skip_to(checkpoint.checkpoint_id + 1)
                self._add_ids(ids)
                return message
            case CheckpointIdsNotDrawn():
                self._is_id_awaited = False
                return message
            case MetadataWriteFailed() | CheckpointsNotRecovered():
                return message
            case CheckpointLeadershipLost(cause=cause):
                _log.warning("job %s no longer completes checkpoints here: %s", self._job_id, cause.message)
                return message
            case CheckpointStoreUnavailable(cause=cause):
                _log.warning("the checkpoints of job %s cannot be recovered for now: %s", self._job_id, cause.message)
                self._context.timers.start_once("store", STORE_RETRY_MS, CheckpointStoreRetryDue())
            case CheckpointStoreRetryDue():
                self.start_recovery()
            case unreachable:
                assert_never(unreachable)
        return None

    def draw_id(self) -> events.CheckpointIdDrawn | None:
        """Return the next id. None means that ids are being drawn, and an event with the id or a failure follows."""
        self._is_id_awaited = True
        return self._id()

    def write_metadata(self, effect: events.WriteMetadata) -> None:
        """Write the metadata of a checkpoint, and draw new ids if few are left. A savepoint is not recorded in the
        store.
        """
        checkpoint, location = effect.checkpoint, effect.target_location
        if effect.is_retained:
            draws = self._ids.next_drawn if self._ids.are_few else None
            work = partial(self.complete, checkpoint, location, draws)
        else:
            work = partial(self.write, checkpoint, location)
        checkpoint_id = checkpoint.checkpoint_id
        self._run(work, lambda error: MetadataWriteFailed(checkpoint_id=checkpoint_id, cause=serialized(error)))

    def read_metadata(self, effect: events.ReadMetadata) -> None:
        """Read the checkpoint of an earlier job to start from. The ids of this job continue after its id."""
        work = partial(
            self.adopt, effect.path, effect.version, allow_non_restored_state=effect.allow_non_restored_state
        )
        self._run(work, lambda error: MetadataReadFailed(version=effect.version, cause=serialized(error)))

    def delete(self, effect: events.Dispose | events.DeleteJob) -> None:
        """Delete checkpoints, state or the whole job: first from the store, then the files."""
        work: Callable[[], None]
        match effect:
            case events.Dispose(retained=retained, checkpoints=checkpoints, state=state):
                work = partial(self.dispose, retained, checkpoints, tuple(handle.path for handle in state))
            case events.DeleteJob(continued=continued):
                work = partial(self.delete_job, self._job_id, continued)
            case unreachable:
                assert_never(unreachable)
        self._run(work, lambda error: Disposed(cause=serialized(error)), lambda _: Disposed())

    def _add_ids(self, ids: CheckpointIds | None) -> None:
        if ids is not None:
            self._ids.add(ids)

    def _id(self) -> events.CheckpointIdDrawn | None:
        if not self._is_id_awaited:
            return None
        checkpoint_id = self._ids.next_id()
        if checkpoint_id is not None:
            self._is_id_awaited = False
            return events.CheckpointIdDrawn(checkpoint_id=checkpoint_id)
        draw = partial(self.draw_ids, self._ids.next_drawn)
        self._run(draw, lambda error: CheckpointIdsNotDrawn(cause=serialized(error)))
        return None

    def _run(
        self,
        work: Callable[[], Any],
        failed: Callable[[BaseException], Message],
        done: Callable[[Any], Message] = lambda answer: answer,
    ) -> None:
        """Run blocking work and report its result. Lost leadership produces the same event for all work."""

        def on_failure(error: BaseException) -> Message:
            is_fenced = isinstance(error, LeadershipLostError)
            return CheckpointLeadershipLost(cause=serialized(error)) if is_fenced else failed(error)

        self._context.pipe_to_self(work, done, on_failure)

    # These functions run on the I/O pool: they block, and use no mutable state.

    def recover(self) -> CheckpointsRecovered:
        recovered = self._checkpoints.recover(self._owner, DRAWN_AT_ONCE)
        completed = tuple(_read(pointer.path) for pointer in recovered.completed)
        adopted = None
        if recovered.adopted is not None:
            # The checkpoint that the job started from may be deleted once the job has completed one.
            with suppress(*([CheckpointFileNotFoundError] if completed else [])):
                adopted = _read(recovered.adopted.path)
        return CheckpointsRecovered(ids=_ids_from(recovered.first_id), completed=completed, adopted=adopted)

    def adopt(self, path: str, version: int, *, allow_non_restored_state: bool) -> MetadataRead:
        """Register an earlier job's checkpoint as the start, and draw later ids. Raises `CheckpointStorageError`."""
        checkpoint = _read(path)
        pointer = CheckpointPointer(checkpoint_id=checkpoint.checkpoint_id, path=checkpoint.path)
        self._checkpoints.adopt(self._owner, pointer)
        first = self._checkpoints.draw_ids(self._owner, DRAWN_AT_ONCE, at_least=checkpoint.checkpoint_id + 1)
        return MetadataRead(
            version=version,
            checkpoint=checkpoint,
            allow_non_restored_state=allow_non_restored_state,
            ids=_ids_from(first),
        )

    def draw_ids(self, at_least: int) -> CheckpointIdsDrawn:
        first = self._checkpoints.draw_ids(self._owner, DRAWN_AT_ONCE, at_least)
        return CheckpointIdsDrawn(ids=_ids_from(first))

    def complete(
        self, checkpoint: CompletedCheckpoint, target_location: str | None, draws: int | None
    ) -> MetadataWritten:
        """Write the metadata, and complete the checkpoint by writing its pointer. If `draws` is set, first draw ids
        from there.

        If the store is unavailable, the metadata is deleted again, so that no reader finds it.
        """
        ids = None
        # Ids are drawn before the pointer is written: the pointer completes the checkpoint, so nothing after it may
        # fail.
        if draws is not None:
            # The ids are drawn in advance. If this fails, they are drawn when they are needed.
            with suppress(StoreUnavailableError):
                ids = self.draw_ids(draws).ids
        path = self._storage.write_metadata(checkpoint, target_location)
        try:
            pointer = CheckpointPointer(checkpoint_id=checkpoint.checkpoint_id, path=path)
            self._checkpoints.add(self._owner, pointer)
        except StoreUnavailableError:
            self._storage.drop_checkpoint(path)
            raise
        return MetadataWritten(checkpoint_id=checkpoint.checkpoint_id, path=path, ids=ids)

    def write(self, checkpoint: CompletedCheckpoint, target_location: str | None) -> MetadataWritten:
        """Write the metadata of a savepoint, which belongs to the user and is not in the store."""
        path = self._storage.write_metadata(checkpoint, target_location)
        return MetadataWritten(checkpoint_id=checkpoint.checkpoint_id, path=path)

    def dispose(self, retained: Sequence[int], checkpoints: Sequence[str], state: Sequence[str]) -> None:
        """Delete checkpoints from the store, then their files, then the state to which only they referred."""
        self._checkpoints.remove(self._owner, retained)
        self._storage.dispose(checkpoints, state)

    def delete_job(self, job_id: JobId, continued: str | None) -> None:
        self._checkpoints.remove_all(self._owner)
        self._storage.delete_job(job_id, continued)


def _ids_from(first: int) -> CheckpointIds:
    return CheckpointIds(first=first, count=DRAWN_AT_ONCE)


def _read(path: str) -> CompletedCheckpoint:
    # A savepoint, or another job's checkpoint, may be on another file system.
    return CheckpointStorage(path).read_metadata(path)


def _not_recovered(error: BaseException) -> Message:
    if isinstance(error, StoreUnavailableError):
        return CheckpointStoreUnavailable(cause=serialized(error))
    return CheckpointsNotRecovered(cause=serialized(error))
