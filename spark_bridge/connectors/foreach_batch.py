"""ForeachBatchSink: calls a user's function with the rows of each completed checkpoint.

Rows are staged as parquet next to the checkpoints, in `<checkpoint directory>/<job>/staged/<uid>-<subtask>/`, and stay
there until the function has returned. Then their first folder is renamed. After this single step a restore considers
the rows processed, and their other folders only have to be deleted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flykka.messages.state.handles import StagedBatch
from flykka.spark_bridge.connectors.staging import (
    StagedCheck,
    StagedRows,
    StagingWriter,
    check_gone,
    read_staged,
    restored,
    warn_unchecked,
)
from flykka.spark_bridge.connectors.written_columns import check_written
from flykka.spark_bridge.errors import OperatorFailedError, SinkError, StagedFileError
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import Staged
from flykka.spark_bridge.rows.files import PARQUET
from flykka.spark_bridge.state.savepoint import out_of_savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.wire.ids import JobId
    from flykka.messages.wire.message import Value

_GIVEN = ".given"


@dataclass(frozen=True, slots=True)
class ForeachBatchSink(Sink):
    """Calls `function(rows, checkpoint_id)` for every completed checkpoint that has rows, with all of its rows.

    It is called at least once for each id, and always with the same rows: after a failure it is called again for the
    restored checkpoint, unless that call is known to have finished. So a write that replaces earlier output for the
    same id (`mode("overwrite")` into a folder of that name, a `MERGE`, a delete before the insert) is exactly once. Ids
    increase, unless a job restores an older checkpoint. Rows of an aborted checkpoint are passed after the next
    completed checkpoint, in a separate call with the id for which they were staged.

    `rows` is a DataFrame of the application's own session and can be read any number of times while the function runs;
    its columns are nullable, even if the stream's are not. An exception of the function fails the job, which may
    restart. It runs in one subtask, because a DataFrame is distributed anyway, and the next checkpoint waits for it.
    """

    parallelism_limit: ClassVar[int | None] = 1

    function: Callable[[DataFrame, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a ForeachBatchSink needs function(rows, checkpoint_id), not {self.function!r}")
        try:
            signature = inspect.signature(self.function)
        except ValueError:
            # The parameters of functions written in C may be unknown.
            return
        try:
            signature.bind(None, 0)
        except TypeError as mismatch:
            raise TypeError(
                f"a ForeachBatchSink calls function(rows, checkpoint_id), but {_called(self.function)} takes"
                f" {signature}"
            ) from mismatch

    @property
    def format(self) -> str:
        return "foreach_batch"

    def writer(self, context: SinkContext) -> ForeachBatchWriter:
        return ForeachBatchWriter(self.function, context)

    def check_rows(self, prototype: DataFrame) -> None:
        check_written(prototype, PARQUET)

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        return f"{checkpoint_directory}/{job_id}/staged"

    def __str__(self) -> str:
        return f"{self.format} {_called(self.function)}"


class ForeachBatchWriter(StagingWriter[StagedBatch]):
    def __init__(self, function: Callable[[DataFrame, int], object], context: SinkContext) -> None:
        super().__init__(context)
        self._function = function
        self._rows = StagedRows(self._staging)

    def restore(self, prepared: Sequence[Value]) -> None:
        """Pass the rows of the checkpoint to the function, unless that was done, and discard all other rows."""
        prepared = out_of_savepoint(self._filesystem, prepared, self._staging.folder)
        pending, folders = restored(prepared, StagedBatch, self._context.operator, "foreach-batch")
        warn_unchecked(self._context.operator, (batch.files or None for batch in pending))
        find = self._staging.owner.find
        self._give(tuple(replace(batch, path=find(batch.path)) for batch in pending), restored=True)
        self._staging.restore(folders)

    def stage(self, rows: DataFrame) -> Staged:
        return self._rows.stage(rows)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        self._committables.pending += self._rows.pop_sealed(checkpoint_id, names)
        return (*self._committables.pending, *self._staging.folders)

    def _commit(self, due: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        self._give(due, restored=False)
        return ()

    def _give(self, due: tuple[StagedBatch, ...], *, restored: bool) -> None:
        if due:
            self._staging.owner.check()
        for checkpoint_id in sorted({batch.checkpoint_id for batch in due}):
            batches = [batch for batch in due if batch.checkpoint_id == checkpoint_id]
            # After a restore, an earlier attempt may have passed the rows already.
            if restored and not self._filesystem.exists(batches[0].path):
                check_gone(self._filesystem, batches[0].path)
            else:
                self._call(batches, checkpoint_id, restored=restored)
                self._note_as_given(batches[0])
            self._staging.discard([_given(batches[0]), *(batch.path for batch in batches)])

    def _call(self, batches: Sequence[StagedBatch], checkpoint_id: int, *, restored: bool) -> None:
        try:
            StagedCheck(self._filesystem, self._context.scope.session, restored=restored).check_batches(batches)
        except StagedFileError:
            # If a later owner has moved the rows, they are not lost.
            self._staging.owner.check()
            raise
        self._context.scope.check()
        try:
            self._function(read_staged(self._context.user_session, batches), checkpoint_id)
        except (Exception, SystemExit) as raised:
            raise OperatorFailedError(
                f"operator {self._context.operator}, its function for the rows of checkpoint {checkpoint_id}"
            ) from raised
        # The function may not have noticed that its Spark jobs were cancelled with the attempt.
        self._context.scope.check()

    def _note_as_given(self, first: StagedBatch) -> None:
        if not self._filesystem.rename(first.path, _given(first)):
            raise SinkError(
                f"{first.path} cannot be renamed, so it cannot be recorded that the function has received its rows"
            )
        self._staging.sync([first.path.rsplit("/", 1)[0]])


def _called(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _given(first: StagedBatch) -> str:
    return first.path + _GIVEN
