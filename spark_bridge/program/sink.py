"""The interface of sinks: checks before the job runs, and the writer for one execution attempt.

It follows Flink's two phases (TwoPhaseCommittingSink). Arriving rows are staged, invisible to readers. At a barrier the
writer returns its state for the checkpoint. When the checkpoint is complete, the staged rows are committed. A commit
may be requested twice, or by a later attempt that was restored from the checkpoint. A sink that publishes rows at once
has nothing to prepare and nothing to commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.program.sink_writer import SinkWriter
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.session.attempt_scope import AttemptScope


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """The subtask, operator and job for which a writer works, and its resources.

    `operator` is the operator's name in errors, `name` is the user's name for it. `staging_folder` is the job's, as
    returned by the sink, and `owner_number` counts the processes that have owned the job. `user_session` is the session
    of the application, without flykka's settings. With `fsync`, files are durable before the writer commits them or
    returns a checkpoint's state that refers to them.
    """

    filesystem: FileSystem
    scope: AttemptScope
    user_session: SparkSession
    uid: str
    name: str
    operator: str
    subtask: int
    parallelism: int
    attempt_number: int
    staging_folder: str | None
    job_id: JobId
    job_name: str
    fsync: bool = True
    owner_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFiles:
    """Files in the `folder` of a sink: the paths of files that the job has published, and counts of other files.

    `by_others` counts files by job name, if file names contain job names; `foreign` counts files that no job has
    published. `staging` names the jobs with staged rows in the staging folder, which are writing now or were killed.
    """

    folder: str
    own: tuple[str, ...] = ()
    by_others: tuple[tuple[str, int], ...] = ()
    foreign: int = 0
    staging: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkJob:
    """Properties that the sinks of a job share.

    `owner_number` counts the owners of the job. `check_owner` raises `OwnershipLostError` if another process now owns
    the job.
    """

    name: str
    user_session: SparkSession
    owner_number: int
    check_owner: Callable[[], object]


class Sink(ABC):
    """A destination of rows."""

    parallelism_limit: ClassVar[int | None] = None
    """The maximum number of subtasks of the sink; None if unlimited."""
    needs_order: ClassVar[bool] = True
    """True if the rows of a batch must be in arrival order. If False, they may be read faster."""

    @property
    def publishes_per_checkpoint(self) -> bool:
        """True if rows become visible only when the checkpoint that contains them is complete."""
        return True

    @property
    @abstractmethod
    def format(self) -> str:
        """The name of the sink's type, or of its file format."""

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter[DataFrame]:
        """Create the writer of one attempt. Does not block."""

    def bound(self, session: SparkSession) -> Self:
        """Return this sink with absolute paths."""
        return self

    def for_job(self, job_id: JobId) -> Self:
        """Return this sink for one job."""
        return self

    @property
    def is_internal(self) -> bool:
        """True if flykka's own code reads the rows, so that the job may run again whatever the target contains."""
        return False

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` if rows with the schema of the prototype cannot be written."""
        return

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` if the target is not writable. Leaves no trace. May block."""
        return

    def target(self, filesystem: FileSystem) -> str | None:
        """Return the same name for all sinks that write to this target; None if sharing a target does not matter."""
        return None

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles | None:
        """List the target folder, with the files that jobs of this name have published. May block.

        Returns None for a sink without a folder.
        """
        return None

    def unpublish(self, filesystem: FileSystem, published: PublishedFiles) -> None:
        """Delete the files that the job has published in a folder. May block."""
        return

    @property
    def read_as(self) -> str:
        """The format that readers of the target expect. All sinks with the same target must have the same format."""
        return self.format

    def finalize_global(self, filesystem: FileSystem) -> None:
        """Finish the output, after the job has read all its input and published all rows.

        May block. May be called again if the job then fails and is restarted. Raises the errors of the storage.
        """
        return

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str | None:
        """Return the folder of a job's staged rows, which is deleted with the job; None if no files are staged."""
        return None
