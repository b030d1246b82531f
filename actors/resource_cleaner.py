"""The part of a JobMaster that puts away what its job leaves behind (Flink's ResourceCleaner).

One thing after the other: behind the last attempt the checkpoints go, and behind them the data.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.messages.coordination import CheckpointingStopped, StopCheckpointing
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.messages.job import JobStatus
from flykka.messages.job_control import JobAttemptsEnded, JobDataReleased
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

CleanupMessage = JobAttemptsEnded | CheckpointingStopped | JobDataReleased
"""What a JobMaster hands to this part of it."""


class ResourceCleaner:
    """What is left of one job; used in the turns of its JobMaster only."""

    def __init__(
        self, context: ActorContext, job_id: JobId, data_plane: DataPlane, checkpoint_coordinator: Ref
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._data_plane = data_plane
        self._checkpoint_coordinator = checkpoint_coordinator
        self._retained: tuple[str, ...] = ()

    @property
    def checkpoint_path(self) -> str | None:
        """The latest checkpoint that has stayed, once that is known."""
        return self._retained[-1] if self._retained else None

    def start(self) -> None:
        """The job has come to its end."""
        # First what works: an attempt that was killed may still be writing where checkpoints are about to be deleted.
        self._context.pipe_to_self(
            partial(self._data_plane.end_attempts, self._job_id),
            lambda _: JobAttemptsEnded(job_id=self._job_id),
            lambda error: JobAttemptsEnded(job_id=self._job_id, cause=serialized(error)),
        )

    def take(self, message: CleanupMessage, status: JobStatus) -> bool:
        """Go on with what is next, for a job that has ended in this status; whether all is put away."""
        match message:
            case JobAttemptsEnded(cause=cause):
                self._publish_if_left(message, cause)
                self._checkpoint_coordinator.tell(StopCheckpointing(job_id=self._job_id, job_status=status))
            case CheckpointingStopped(retained=retained):
                self._retained = retained
                # A retained checkpoint publishes what was staged for it when a job starts from it. A finished job has.
                keep_staged = bool(retained) and status is not JobStatus.FINISHED
                self._context.pipe_to_self(
                    partial(self._data_plane.release_job, self._job_id, keep_staged=keep_staged),
                    lambda _: JobDataReleased(job_id=self._job_id),
                    lambda error: JobDataReleased(job_id=self._job_id, cause=serialized(error)),
                )
            case JobDataReleased(cause=cause):
                self._publish_if_left(message, cause)
                return True
            case _:
                assert_never(message)
        return False

    def _publish_if_left(self, message: Message, cause: SerializedThrowable | None) -> None:
        if cause is not None:
            # The job has its result all the same; who looks after the cluster hears what may be left.
            self._context.publish(message)
