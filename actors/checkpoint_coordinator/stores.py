"""The part of a CheckpointCoordinator that reaches what outlives it: its storage, its store and the ids it has drawn.

It asks on the I/O pool and makes events of the answers. It recovers from a store that cannot be used for now as soon as
that is back; where somebody else leads, or coordinates the job, it says so, whatever it was that could not be done.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import assert_never

from flykka.actors.checkpoint_coordinator.durable_checkpoints import DurableCheckpoints
from flykka.actors.checkpoint_storage.job_checkpoints import JobCheckpoints
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import LeadershipLostError, StoreUnavailableError
from flykka.actors.machines.checkpoint import effects, events
from flykka.actors.machines.checkpoint.events import CoordinatorEvent
from flykka.actors.machines.checkpoint.id_counter import DrawnCheckpointIds
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
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

_log = logging.getLogger(__name__)

STORE_RETRY_MS = 1_000
"""Milliseconds before an unavailable store is asked again."""

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
"""Messages that a CheckpointCoordinator forwards to this part of it."""


class CheckpointStores:
    """Of one job; used in the turns of its coordinator only."""

    def __init__(
        self, context: ActorContext, job_id: JobId, storage: CheckpointStorage, checkpoints: JobCheckpoints
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._durable = DurableCheckpoints(storage, checkpoints, context.new_id("checkpoint-coordinator"))
        self._ids = DrawnCheckpointIds()
        self._is_id_awaited = False

    def recover(self) -> None:
        """Take the checkpoints of the job over, from nobody or from the coordinator before."""
        self._context.pipe_to_self(self._durable.recover, _said, _not_recovered)

    def take(self, message: CheckpointStoreMessage) -> CoordinatorEvent | None:
        """The event that a message means for the coordinator, if any."""
        match message:
            case MetadataWritten(ids=ids):
                self._add_ids(ids)
                return message
            case Disposed(cause=cause):
                if cause is not None:
                    _log.warning("files of job %s may be left behind: %s", self._job_id, cause.message)
                return events.DisposalEnded()
            case CheckpointIdsDrawn(ids=ids):
                self._add_ids(ids)
                return self._id()
            case CheckpointsRecovered(ids=ids):
                self._add_ids(ids)
                return message
            case MetadataRead(version=version, checkpoint=checkpoint, allow_non_restored_state=allow, ids=ids):
                self._ids.skip_to(checkpoint.checkpoint_id + 1)
                self._add_ids(ids)
                return events.CheckpointAdopted(version=version, checkpoint=checkpoint, allow_unmatched=allow)
            case CheckpointIdsNotDrawn():
                self._is_id_awaited = False
                return message
            case MetadataWriteFailed() | CheckpointsNotRecovered():
                return message
            case CheckpointLeadershipLost(cause=cause):
                _log.warning("job %s completes no checkpoint here any more: %s", self._job_id, cause.message)
                return message
            case CheckpointStoreUnavailable(cause=cause):
                _log.warning("the checkpoints of job %s cannot be recovered for now: %s", self._job_id, cause.message)
                self._context.timers.start_once("store", STORE_RETRY_MS, CheckpointStoreRetryDue())
            case CheckpointStoreRetryDue():
                self.recover()
            case unreachable:
                assert_never(unreachable)
        return None

    def draw_id(self) -> events.CheckpointIdDrawn | None:
        """The next id; None where it comes later, or will be said to have failed."""
        self._is_id_awaited = True
        return self._id()

    def use_metadata(self, effect: effects.WriteMetadata | effects.ReadMetadata) -> None:
        """Make a checkpoint durable and complete, or read one; ids are drawn beside that."""
        match effect:
            case effects.WriteMetadata(checkpoint=checkpoint, target_location=location, is_retained=is_retained):
                if is_retained:
                    draws = self._ids.next_drawn if self._ids.are_few else None
                    work = partial(self._durable.complete, checkpoint, location, draws)
                else:
                    work = partial(self._durable.write, checkpoint, location)
                self._context.pipe_to_self(work, _said, partial(_not_written, checkpoint.checkpoint_id))
            case effects.ReadMetadata(version=version, path=path, allow_unmatched=allow):
                adopt = partial(self._durable.adopt, path, version, allow_unmatched=allow)
                self._context.pipe_to_self(adopt, _said, partial(_not_read, version))
            case unreachable:
                assert_never(unreachable)

    def delete(self, effect: effects.Dispose | effects.DeleteJob) -> None:
        """Delete what is not needed any more, out of the store first."""
        match effect:
            case effects.Dispose(retained=retained, checkpoints=checkpoints, state=state):
                work = partial(self._durable.dispose, retained, checkpoints, tuple(handle.path for handle in state))
            case effects.DeleteJob(continued=continued):
                work = partial(self._durable.delete_job, self._job_id, continued)
            case unreachable:
                assert_never(unreachable)
        self._context.pipe_to_self(work, _disposed, _not_disposed)

    def _add_ids(self, ids: CheckpointIds | None) -> None:
        if ids is not None:
            self._ids.add(ids)

    def _id(self) -> events.CheckpointIdDrawn | None:
        if not self._is_id_awaited:
            return None
        checkpoint_id = self._ids.take()
        if checkpoint_id is not None:
            self._is_id_awaited = False
            return events.CheckpointIdDrawn(checkpoint_id=checkpoint_id)
        self._context.pipe_to_self(partial(self._durable.draw_ids, self._ids.next_drawn), _said, _not_drawn)
        return None


def _said(message: Message) -> Message:
    return message


def _not_recovered(error: BaseException) -> Message:
    if isinstance(error, StoreUnavailableError):
        return CheckpointStoreUnavailable(cause=serialized(error))
    return _unless_led_by_another(error) or CheckpointsNotRecovered(cause=serialized(error))


def _not_drawn(error: BaseException) -> Message:
    return _unless_led_by_another(error) or CheckpointIdsNotDrawn(cause=serialized(error))


def _not_written(checkpoint_id: int, error: BaseException) -> Message:
    failed = MetadataWriteFailed(checkpoint_id=checkpoint_id, cause=serialized(error))
    return _unless_led_by_another(error) or failed


def _not_read(version: int, error: BaseException) -> Message:
    return _unless_led_by_another(error) or MetadataReadFailed(version=version, cause=serialized(error))


def _disposed(_: None) -> Disposed:
    return Disposed()


def _not_disposed(error: BaseException) -> Message:
    return _unless_led_by_another(error) or Disposed(cause=serialized(error))


def _unless_led_by_another(error: BaseException) -> CheckpointLeadershipLost | None:
    return CheckpointLeadershipLost(cause=serialized(error)) if isinstance(error, LeadershipLostError) else None
