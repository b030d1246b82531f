"""The port for sinks: what a sink is asked before its job runs, and what writes for it in one execution attempt.

Flink's two phases (TwoPhaseCommittingSink): rows are staged as they come, where nobody sees them; at a barrier the
writer says what the checkpoint must hold of them; when the checkpoint is complete they are committed. A commit may be
asked for twice, or come from a later attempt that was restored from the checkpoint. A sink that shows rows at once has
nothing to prepare and nothing to commit.
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
    """For which subtask of which operator of which job a writer works, and with what.

    `operator` is how the operator is called in an error, `name` how the user has called it. `staging_folder` is the
    job's, as the sink has named it, and `owner_number` that of the process among those that own the job one after the
    other. `user_session` is the session of the application, without our settings. With `fsync` files are durable before
    the writer returns a checkpoint's state that refers to them, or has committed them.
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
    """Files in the `folder` of a sink, for readers: the paths of those that the job has published, and the others.

    `by_others` are numbers of files by the names of jobs, as far as these can stand in a file name; `foreign` is the
    number of those that no job has published. `staging` are the names, in the staging folder, of jobs that have staged
    rows there: they write at this moment, or were killed.
    """

    folder: str
    own: tuple[str, ...] = ()
    by_others: tuple[tuple[str, int], ...] = ()
    foreign: int = 0
    staging: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkJob:
    """Common to the sinks of a job: its name, the session of the application, and this process as its owner.

    `owner_number` counts the owners of the job; `check_owner` raises `OwnershipLostError` if another process is it now.
    """

    name: str
    user_session: SparkSession
    owner_number: int
    check_owner: Callable[[], object]


class Sink(ABC):
    """A destination of rows."""

    parallelism_limit: ClassVar[int | None] = None
    """In how many subtasks the sink may run; None: in any number."""
    needs_order: ClassVar[bool] = True
    """True if the rows of a batch must be in the order in which they came; in any other they may be read faster."""

    @property
    def publishes_per_checkpoint(self) -> bool:
        """True if nobody sees a row before the checkpoint that holds it is complete."""
        return True

    @property
    @abstractmethod
    def format(self) -> str:
        """The kind of sink, or of files."""

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter[DataFrame]:
        """Make the writer of one attempt. Does not block."""

    def bound(self, session: SparkSession) -> Self:
        """This sink as it is meant where it was written: a relative path is made absolute."""
        return self

    def for_job(self, job_id: JobId) -> Self:
        """This sink as one job writes to it."""
        return self

    @property
    def is_internal(self) -> bool:
        """True if the rows are not for the user: the job may be run again, whatever lies there."""
        return False

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` where rows with the schema of the prototype cannot be written."""
        return

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` where nothing can be written to where the rows are to go. Leaves no trace. May block."""
        return

    def target(self, filesystem: FileSystem) -> str | None:
        """The destination, named the same by all sinks that write to it; None where that concerns no other sink."""
        return None

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles | None:
        """List the folder that the rows go to, with the files that jobs of this name have published. May block.

        None for a sink that has no folder.
        """
        return None

    def unpublish(self, filesystem: FileSystem, published: PublishedFiles) -> None:
        """Delete what the job has published in a folder. May block."""
        return

    @property
    def read_as(self) -> str:
        """The format that readers of the target rely on: sinks with one target must agree in it."""
        return self.format

    def finalize_global(self, filesystem: FileSystem) -> None:
        """Do what is to be done once, when the job has read its input to the end and published all of its rows.

        May block; may be called again, where the job fails after it and is restarted. Raises what the storage raises.
        """
        return

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str | None:
        """Return the folder of a job's staged rows, deleted with the job; None for a sink that stages none."""
        return None
