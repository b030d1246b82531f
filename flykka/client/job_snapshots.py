"""Savepoints and checkpoints of a running job that its client asks for, while the job goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import TYPE_CHECKING

from flykka.errors import CheckpointError, SavepointError
from flykka.messages.control.job import CheckpointType, JobStatus

if TYPE_CHECKING:
    from flykka.client.job_requests import JobRequests
    from flykka.messages.wire.ids import JobId

SNAPSHOT_TIMEOUT = 600.0
"""Seconds that a client waits, as long as a checkpoint may take unless that was set."""


class JobSnapshots(ABC):
    """A job that can be asked for them."""

    _requests: JobRequests

    @property
    @abstractmethod
    def job_id(self) -> JobId:
        """The id of the job."""

    @property
    @abstractmethod
    def job_name(self) -> str:
        """The name of the job."""

    @property
    @abstractmethod
    def status(self) -> JobStatus:
        """The last status that was heard of."""

    @abstractmethod
    def done(self) -> bool:
        """True if the job has ended, in whatever way."""

    def trigger_savepoint(self, directory: str | PathLike[str] | None = None, timeout: float = SNAPSHOT_TIMEOUT) -> str:
        """Have the job take a savepoint and go on; the path of the savepoint, which is complete when this returns.

        It is a folder as `stop_with_savepoint` makes one. It publishes nothing: what it holds for the sinks is
        published by the next checkpoint of the job, or where there is none by a job that starts from it. From
        a coroutine: `await asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured, the job is not running, or the savepoint failed.
            TimeoutError: it is not complete within `timeout` seconds, and may still become so.
        """
        target = self._requests.savepoint_directory(directory)
        if self.done():
            raise SavepointError(f"no savepoint of {self._named}: it is {self.status} already")
        return self._requests.trigger_savepoint(timeout, target)

    def trigger_checkpoint(
        self,
        checkpoint_type: CheckpointType | str = CheckpointType.CONFIGURED,
        timeout: float = SNAPSHOT_TIMEOUT,
    ) -> str:
        """Have the job take a checkpoint now, whatever its interval is, and publish what it holds; its path.

        A `full` one writes all state again and needs no file of an earlier one; `incremental` and `configured` ones
        write what is new, as all others do. It waits while as many are under way as there may be, but not for the
        pause between two. It is the job's own, and is deleted as they are. From a coroutine: `await
        asyncio.to_thread(...)`.

        Raises:
            CheckpointError: the job is not running, or the checkpoint failed; or there is no such type.
            TimeoutError: it is not complete within `timeout` seconds, and may still become so.
        """
        try:
            chosen = CheckpointType(checkpoint_type.upper())
        except ValueError:
            known = ", ".join(each.lower() for each in CheckpointType)
            raise CheckpointError(f"there is no type of checkpoints {checkpoint_type!r}: there are {known}") from None
        if self.done():
            raise CheckpointError(f"no checkpoint of {self._named}: it is {self.status} already")
        return self._requests.trigger_checkpoint(timeout, chosen)

    @property
    def _named(self) -> str:
        return f"job {self.job_name!r} ({self.job_id})"
