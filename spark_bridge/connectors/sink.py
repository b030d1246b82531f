"""The port for sinks: what a sink is asked before its job runs, and what writes for it in one execution attempt.

Flink's two phases (TwoPhaseCommittingSink): rows are staged as they come, where nobody sees them; at a barrier the
writer says what the checkpoint must hold of them; when the checkpoint is complete they are committed. A commit may be
asked for twice, or come from a later attempt that was restored from the checkpoint. A sink that shows rows at once has
nothing to prepare and nothing to commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from flykka.spark_bridge.operators.sink import Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId
    from flykka.messages.wire.message import Value
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.connectors.file.published_files import PublishedFiles
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """For which subtask of which operator of which job a writer works, and with what.

    `operator` is how the operator is called in an error, `name` how the user has called it. `staging_folder` is the
    job's, as the sink has named it. `user_session` is the session of the application, without our settings.
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
    job_name: str


class SinkWriter(ABC):
    """Writes in one attempt.

    `stage` is called by two stages at once; `restore`, before all else, and `prepare_commit` and `commit`, one at a
    time, by other threads than that. All may block.
    """

    @abstractmethod
    def stage(self, rows: DataFrame) -> Staged:
        """Take one batch, with nothing to be seen of it before its checkpoint is complete, if the sink can."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        """What the checkpoint must hold, piece by piece; `names` were staged for it.

        Where the parallelism changes, each piece may come to another subtask, and a subtask gets pieces of several.
        """
        return ()

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Let everybody see what was prepared for this checkpoint and those before it; the files made visible."""
        return ()

    def restore(self, prepared: Sequence[Value]) -> None:
        """Commit what the checkpoint holds, and discard whatever else this subtask has staged."""
        return


class Sink(ABC):
    """Where rows go."""

    publishes_per_checkpoint: ClassVar[bool] = True
    """Whether nobody sees a row before the checkpoint that holds it is complete."""

    parallelism_limit: ClassVar[int | None] = None
    """In how many subtasks the sink may run; None: in any number."""

    @property
    @abstractmethod
    def format(self) -> str:
        """What the rows become: the kind of sink, or of files."""

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter:
        """What writes in one attempt. Does not block."""

    def bound(self, session: SparkSession) -> Self:
        """This sink as it is meant where it was written: a relative path is made absolute."""
        return self

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` where rows with the schema of the prototype cannot be written."""
        return

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` where nothing can be written to where the rows are to go. Leaves no trace. May block."""
        return

    def target(self, filesystem: FileSystem) -> str | None:
        """Where the rows go, named the same by all sinks that write to it; None where that concerns nobody."""
        return None

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles | None:
        """What is in the folder that the rows go to, and what of it jobs of this name have published. May block.

        None for a sink that has no folder.
        """
        return None

    def unpublish(self, filesystem: FileSystem, published: PublishedFiles) -> None:
        """Delete what the job has published in a folder. May block."""
        return

    @property
    def read_as(self) -> str:
        """What readers of the target rely on: sinks with one target must agree in it."""
        return self.format

    def finalize_global(self, filesystem: FileSystem) -> None:
        """Do what is to be done once, when the job has read its input to the end and published all of its rows.

        May block; may be called again, where the job fails after it and is restarted. Raises what the storage raises.
        """
        return

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str | None:
        """Where a job stages its rows; None for a sink that stages none. It is deleted with the job."""
        return None
