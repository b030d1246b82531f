"""Folders in which a subtask of a sink stages rows.

They are called `<the job's staging folder>/<uid>-<subtask>-of-<parallelism>/<attempt>-<batch>/`. The uid has a digest
behind it, for two that read alike in a file name must not discard each other's files. With another parallelism a
subtask stages elsewhere: what it finds in the folder of the former one may be another subtask's to publish.

A job with a new id that goes on from a checkpoint of another one stages in a folder of its own. The other's stays until
the new job has completed a checkpoint: until then one may still go back to what the other had staged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.types import StructType

from flykka.actors.checkpoint_storage.file_names import in_a_name
from flykka.messages.state.operator_state import StagedBatch, StagingFolder
from flykka.messages.wire.message import Value
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.operators.sink import Staged
from flykka.spark_bridge.rows.files import PARQUET, FileLayout, read_parquet, write_files
from flykka.spark_bridge.rows.materialise import counted, numbers_of, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.connectors.sink import SinkContext
    from flykka.spark_bridge.rows.filesystem import FileSystem

Pending = TypeVar("Pending", bound=Value)
"""Pieces that a sink has staged and not yet committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles:
    """A batch: its folder, the files in it, and how many rows they have; of no rows there is nothing."""

    folder: str
    files: tuple[str, ...] = ()
    rows: int = 0


class Staging:
    """The staging folder of one subtask, in one attempt."""

    def __init__(self, context: SinkContext) -> None:
        assert context.staging_folder is not None, f"{context.uid!r} stages nothing"
        self.name = f"{in_a_name(context.uid)}-{context.subtask}"
        self._context = context
        self._filesystem = context.filesystem
        self._job_folder = context.staging_folder
        self._of_parallelism = f"-of-{context.parallelism}"
        self._numbers = count(1)
        self._inherited: frozenset[str] = frozenset()

    @cached_property
    def folder(self) -> str:
        """All that the subtask has staged, named so that it is found from anywhere."""
        return self._filesystem.qualified(f"{self._job_folder}/{self.name}{self._of_parallelism}")

    def check_reachable(self) -> None:
        """Raise `SinkError` where not even the job's own folder is there, which stays as long as the job."""
        if not self._filesystem.exists(self._job_folder):
            raise SinkError(
                f"{self._context.operator}: {self._job_folder} is not there, in which the job has staged its files: is"
                " the disk or the share away that it is on? What waits there to be published is not given up"
            )

    @property
    def folders(self) -> tuple[StagingFolder, ...]:
        """The folders that a checkpoint keeps: an attempt that goes on from it knows what there is to clear."""
        return tuple(StagingFolder(path=path) for path in (self.folder, *sorted(self._inherited)))

    def write(self, rows: DataFrame, layout: FileLayout = PARQUET) -> StagedFiles:
        """Write one batch. One Spark job. Safe to call from any thread."""
        self._context.scope.check()
        folder = f"{self.folder}/{self._context.attempt_number}-{next(self._numbers)}"
        observation, observed = counted(rows, {})
        files = write_files(self._filesystem, observed, folder, layout)
        written = int(numbers_of(observation).get("rows", 0))
        if not written:
            # Spark makes a file for no rows too.
            self._filesystem.delete(folder)
            return StagedFiles(folder=folder)
        if not files:
            raise SinkError(f"{self._context.operator} has written {written} rows to {folder}, where no file is found")
        return StagedFiles(folder=folder, files=tuple(status.path for status in files), rows=written)

    def discard(self, batches: Iterable[str]) -> None:
        """Delete the folders of batches that nobody needs any more."""
        for folder in set(batches):
            self._filesystem.delete(folder)

    def restore(self, folders: Iterable[StagingFolder]) -> None:
        """Discard all that attempts before have staged; `folders` are those the restored checkpoint names.

        Those of this job at this parallelism belong to subtasks that are there.
        """
        self._filesystem.delete(self.folder)
        job = f"{self.folder.rsplit('/', 1)[0]}/"
        self._inherited = frozenset(
            folder.path
            for folder in folders
            if not (folder.path.startswith(job) and folder.path.endswith(self._of_parallelism))
        )

    def release_inherited(self) -> None:
        """This job has completed a checkpoint of its own: what the job before it has staged serves nobody."""
        for folder in self._inherited:
            self._filesystem.delete(folder)
            self._filesystem.delete_if_empty(folder.rsplit("/", 1)[0])
        self._inherited = frozenset()


def check_staging(filesystem: FileSystem, target: str, staging: str) -> None:
    """Make a folder in the folder `staging` of a sink's target, where it will stage, and leave no trace. May block.

    Raises:
        SinkError: it cannot be made.
    """
    was_there = filesystem.exists(target)
    trial = f"{target}/{staging}/trial"
    try:
        filesystem.make_folder(trial)
    except OSError as refused:
        raise SinkError(f"{target} cannot be written to: {refused}") from refused
    for folder in (trial, f"{target}/{staging}", *(() if was_there else (target,))):
        filesystem.delete_if_empty(folder)


def restored(
    prepared: Iterable[Value], pending: type[Pending], operator: str, kind: str
) -> tuple[tuple[Pending, ...], tuple[StagingFolder, ...]]:
    """Read the state of a sink in a checkpoint: the pending pieces, and the folders to clear.

    Raises:
        SinkError: another kind of sink has prepared something of it.
    """
    waiting: list[Pending] = []
    folders: list[StagingFolder] = []
    for piece in prepared:
        match piece:
            case StagingFolder():
                folders.append(piece)
            case _ if isinstance(piece, pending):
                waiting.append(piece)
            case _:
                held = type(piece).__name__
                raise SinkError(f"{operator} is a {kind} sink, but the checkpoint holds a {held} under its uid")
    return tuple(waiting), tuple(folders)


class StagedRows:
    """Batches kept just as they are until they are read again, by this attempt or a later one."""

    def __init__(self, staging: Staging, layout: FileLayout = PARQUET) -> None:
        """The layout is one of parquet."""
        self._staging = staging
        self._layout = layout
        self._schemas: dict[str, str] = {}

    def stage(self, rows: DataFrame) -> Staged:
        """Write one batch. One Spark job. Safe to call from any thread."""
        batch = self._staging.write(rows, self._layout)
        if not batch.rows:
            return Staged(rows=0)
        self._schemas[batch.folder] = rows.schema.json()
        return Staged(rows=batch.rows, names=(batch.folder,))

    def pop_staged(self, checkpoint_id: int, names: tuple[str, ...]) -> tuple[StagedBatch, ...]:
        """The batches of these names, in a form that a checkpoint can keep."""
        return tuple(
            StagedBatch(checkpoint_id=checkpoint_id, path=name, schema=self._schemas.pop(name)) for name in names
        )


def read_staged(session: SparkSession, batches: Sequence[StagedBatch]) -> DataFrame:
    """The rows of batches."""
    paths: dict[str, list[str]] = {}
    for batch in batches:
        paths.setdefault(batch.schema, []).append(batch.path)
    return together(
        [read_parquet(session, folders, StructType.fromJson(json.loads(schema))) for schema, folders in paths.items()]
    )
