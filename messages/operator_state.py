"""What operators of the Spark side keep in a checkpoint beside their batches."""

from __future__ import annotations

from flykka.messages.message import Value, value


@value("operator_state.window")
class WindowOperatorState(Value):
    """Windows that start at `emitted_to_ms` or before have been fired; None where none has."""

    emitted_to_ms: int | None = None


@value("operator_state.pending_file")
class PendingFile(Value):
    """A staged file, and its name from when checkpoint `checkpoint_id`, or a later one, is complete."""

    checkpoint_id: int
    staged: str
    target: str


@value("operator_state.file_sink")
class FileSinkState(Value):
    """What a file sink has staged and not yet published.

    `staging` is the folder of all that it stages, and those of jobs before that it has still to clear.
    """

    pending: tuple[PendingFile, ...] = ()
    staging: tuple[str, ...] = ()


@value("operator_state.staged_batch")
class StagedBatch(Value):
    """Rows staged for checkpoint `checkpoint_id` as a folder of parquet files; `schema` is Spark's, as JSON."""

    checkpoint_id: int
    path: str
    schema: str


@value("operator_state.foreach_batch_sink")
class ForeachBatchSinkState(Value):
    """What a foreach-batch sink has staged and not yet given to its function; `staging` is as a file sink's."""

    pending: tuple[StagedBatch, ...] = ()
    staging: tuple[str, ...] = ()
