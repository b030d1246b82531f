"""The part of a JobMaster that cleans up after its job (Flink's ResourceCleaner and JobResultStore).

The steps run one after the other. First the job's end is recorded in the store, so that no other leader runs the job
again. After the last attempt has ended, the checkpoints are deleted, and then the data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.services import LeaderStore
from flykka.messages.control.checkpoint_coordination import CheckpointingStopped, StopCheckpointing
from flykka.messages.control.job import CancelJob, JobStatus
from flykka.messages.control.job_control import (
    JobAttemptsEnded,
    JobDataReleased,
    JobEnded,
    JobResultRecorded,
    RecordResultDue,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

_log = logging.getLogger(__name__)

RECORD_RETRY_MS = 1_000

CleanupMessage = JobResultRecorded | RecordResultDue | JobAttemptsEnded | CheckpointingStopped | JobDataReleased


class ResourceCleaner:
    """Used in the turns of one JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        job_id: JobId,
        data_plane: DataPlane,
        checkpoint_coordinator: Ref,
        store: LeaderStore,
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._data_plane = data_plane
        self._checkpoint_coordinator = checkpoint_coordinator
        self._store = store
        self._end: JobEnded | None = None
        self._deletes_checkpoints = False

    @property
    def end(self) -> JobEnded:
        """The end of the job. After the cleanup it contains the newest retained checkpoint."""
        assert self._end is not None, f"job {self._job_id} has not ended"
        return self._end

    def on_cancel(self, message: CancelJob) -> None:
        self._deletes_checkpoints |= message.delete_checkpoints

    def start(self, end: JobEnded) -> None:
        deletes = self._deletes_checkpoints and end.status is JobStatus.CANCELED
        self._end = replace(end, deletes_checkpoints=deletes)
        self._record_result(self._end)

    def on_message(self, message: CleanupMessage) -> bool:
        """Start the next step. Returns True if the cleanup is complete."""
        match message:
            case JobResultRecorded(cause=cause):
                self._on_recorded(cause)
            case RecordResultDue():
                self._record_result(self.end)
            case JobAttemptsEnded(cause=cause):
                self._publish_failure(message, cause)
                stop = StopCheckpointing(
                    job_id=self._job_id,
                    job_status=self.end.status,
                    delete_checkpoints=self.end.deletes_checkpoints,
                )
                self._checkpoint_coordinator.tell(stop)
            case CheckpointingStopped(retained=retained):
                self._release(retained)
            case JobDataReleased(cause=cause):
                self._publish_failure(message, cause)
                return True
            case _:
                assert_never(message)
        return False

    def _on_recorded(self, cause: SerializedThrowable | None) -> None:
        if cause is not None:
            # If another process leads, the retries fail until the JobManager is notified and stops this JobMaster.
            _log.error("the end of job %s could not be recorded: %s", self._job_id, cause.message)
            self._context.timers.start_once("note-result", RECORD_RETRY_MS, RecordResultDue(job_id=self._job_id))
            return
        # Running work must end first, because a killed attempt may still write to the checkpoint folders.
        self._begin(partial(self._data_plane.end_attempts, self._job_id), JobAttemptsEnded)

    def _record_result(self, end: JobEnded) -> None:
        self._begin(partial(self._store.put_result, end), JobResultRecorded)

    def _release(self, retained: tuple[str, ...]) -> None:
        end = self.end
        if retained and end.checkpoint_path is None:
            self._end = replace(end, checkpoint_path=retained[-1])
        # A job started from a retained checkpoint publishes the rows staged for it. A finished job has published its
        # own rows.
        keep_staged = bool(retained) and end.status is not JobStatus.FINISHED
        self._begin(partial(self._data_plane.release_job, self._job_id, keep_staged=keep_staged), JobDataReleased)

    def _begin(
        self, step: Callable[[], object], outcome: type[JobResultRecorded | JobAttemptsEnded | JobDataReleased]
    ) -> None:
        self._context.pipe_to_self(
            step,
            lambda _: outcome(job_id=self._job_id),
            lambda error: outcome(job_id=self._job_id, cause=serialized(error)),
        )

    def _publish_failure(self, message: Message, cause: SerializedThrowable | None) -> None:
        if cause is not None:
            # The job keeps its result. The event informs operators of the cluster about possible leftovers.
            self._context.publish(message)
