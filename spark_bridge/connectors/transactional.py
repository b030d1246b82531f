"""Sinks whose target writes rows and a number in one transaction, which suffices for exactly-once.

Rows are staged as parquet next to the checkpoints, in `<checkpoint directory>/<job>/staged/<uid>-<subtask>/`. When a
checkpoint is complete, each subtask publishes the rows that it has staged for the checkpoint in one transaction, which
also records the id of the checkpoint under the name of the writer, `<job>/<uid>-<subtask>`. A restore of the checkpoint
publishes the same rows again, and the target recognises the id. So it does not matter how far the previous attempt got.

All unpublished rows of a writer stay one element of state, whichever subtask gets it when the parallelism changes: the
ids of one writer must be published in order, because a later id would hide an earlier id.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.messages.state.handles import StagedBatch, WriterState
from flykka.spark_bridge.connectors.staging import (
    StagedCheck,
    StagedRows,
    StagingWriter,
    read_staged,
    restored,
    sync_names,
    warn_unchecked,
)
from flykka.spark_bridge.connectors.written_columns import check_written
from flykka.spark_bridge.errors import OperatorFailedError, StagedFileError
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.files import PARQUET, FileLayout
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.state.savepoint import out_of_savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId
    from flykka.messages.wire.message import Value
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The rows of one checkpoint that one writer publishes, staged in the folders of `batches`.

    It is `restored` if an attempt publishes rows that another attempt has staged.
    """

    writer: str
    checkpoint_id: int
    batches: tuple[StagedBatch, ...]
    session: SparkSession
    filesystem: FileSystem
    restored: bool = False
    fsync: bool = True

    @property
    def rows(self) -> DataFrame:
        """Return the rows. Their columns are nullable, even if the stream's are not. Raises like `folders`."""
        self.folders()
        return read_staged(self.session, self.batches)

    def rows_with_arrival(self, column: str) -> DataFrame:
        """Return the rows, with their arrival order in a column. Raises like `folders`."""
        self.folders()
        file, row = F.col("_metadata.file_name"), F.col("_metadata.row_index")
        return together(
            [
                read_staged(self.session, (batch,)).withColumn(column, F.struct(F.lit(number), file, row))
                for number, batch in enumerate(self.batches)
            ]
        )

    def folders(self) -> tuple[str, ...]:
        """Return the folders of the staged files.

        Raises:
            StagedFileError: a file is missing or was changed. Published rows are deleted, but no longer needed.
        """
        self.check.check_batches(self.batches)
        return tuple(batch.path for batch in self.batches)

    def local_files(self) -> tuple[str, ...] | None:
        """Return the staged files if Python can access them without the JVM, else None. Raises like `folders`."""
        places = [(batch, self.filesystem.local(batch.path)) for batch in self.batches]
        if any(place is None or not batch.files for batch, place in places):
            return None
        self.check.check_batches(self.batches)
        return tuple(f"{place}/{file.name}" for batch, place in places for file in batch.files)

    @property
    def check(self) -> StagedCheck:
        """The check of staged files before they are published."""
        return StagedCheck(self.filesystem, self.session, restored=self.restored)

    def sync_names(self, folders: Iterable[str]) -> None:
        """Make the names of files in folders durable, if that is configured."""
        if self.fsync:
            sync_names(folders)


class TransactionalSink(Sink):
    """A sink that publishes one transaction per checkpoint and subtask."""

    @abstractmethod
    def publish(self, transaction: Transaction) -> None:
        """Publish the rows and record `checkpoint_id` under `writer`, atomically. May block.

        Does nothing if this id or a later id is recorded for the writer. This must be checked before the rows are read,
        since they may no longer exist then, and within the transaction, since another attempt of the same writer may
        run concurrently. An exception fails the attempt, and the next attempt calls this method again.
        """

    @property
    def staged_as(self) -> FileLayout:
        """The layout of staged files."""
        return PARQUET

    def writer(self, context: SinkContext) -> SinkWriter[DataFrame]:
        return TransactionalWriter(self, context)

    def check_rows(self, prototype: DataFrame) -> None:
        check_written(prototype, self.staged_as)

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str | None:
        """Return the folder of staged files, next to the checkpoints that need them."""
        return f"{checkpoint_directory}/{job_id}/staged"


class TransactionalWriter(StagingWriter[StagedBatch]):
    def __init__(self, sink: TransactionalSink, context: SinkContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._rows = StagedRows(self._staging, sink.staged_as)

    def restore(self, prepared: Sequence[Value]) -> None:
        """Publish rows of the checkpoint that the target lacks, and discard all other rows."""
        prepared = out_of_savepoint(self._filesystem, prepared, self._staging.folder)
        states, folders = restored(prepared, WriterState, self._context.operator, self._sink.format)
        find = self._staging.owner.find
        for state in states:
            warn_unchecked(self._context.operator, (batch.files or None for batch in state.batches))
            batches = tuple(replace(batch, path=find(batch.path)) for batch in state.batches)
            self._publish(state.writer, batches, restored=True)
        self._staging.restore(folders)

    def stage(self, rows: DataFrame) -> Staged:
        return self._rows.stage(rows)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        self._committables.pending += self._rows.pop_sealed(checkpoint_id, names)
        pending = self._committables.pending
        states = (WriterState(writer=self._name, batches=pending),) if pending else ()
        return (*states, *self._staging.folders)

    def _commit(self, due: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        self._publish(self._name, due, restored=False)
        return ()

    @property
    def _name(self) -> str:
        return f"{self._context.job_id}/{self._staging.name}"

    def _publish(self, writer: str, due: tuple[StagedBatch, ...], *, restored: bool) -> None:
        if due:
            self._staging.owner.check()
        for checkpoint_id in sorted({batch.checkpoint_id for batch in due}):
            batches = tuple(batch for batch in due if batch.checkpoint_id == checkpoint_id)
            transaction = Transaction(
                writer=writer,
                checkpoint_id=checkpoint_id,
                batches=batches,
                session=self._context.scope.session,
                filesystem=self._filesystem,
                restored=restored,
                fsync=self._context.fsync,
            )
            self._context.scope.check()
            try:
                self._sink.publish(transaction)
            except (Exception, SystemExit) as raised:
                if isinstance(raised, StagedFileError):
                    # If a later owner has moved the rows, they are not lost.
                    self._staging.owner.check()
                what = f"operator {self._context.operator}, which publishes the rows of checkpoint {checkpoint_id}"
                raise OperatorFailedError(what) from raised
            self._staging.discard(batch.path for batch in batches)
