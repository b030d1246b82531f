"""State that operators of the Spark side keep in a checkpoint beside their batches."""

from __future__ import annotations

from flykka.messages.state.file_digest import FileDigest
from flykka.messages.wire.message import Value, value

COMMITTABLES = "committables"
"""The list state of a sink: what it has staged and not yet committed, as Flink's committers call it."""


@value("operator_state.closed_to")
class ClosedTo(Value):
    """The rows of the shared state `state_id` are for results later than `closed_to_ms` only."""

    state_id: str
    closed_to_ms: int


@value("operator_state.emitted_to")
class EmittedTo(Value):
    """The results up to `emitted_to_ms` were emitted with the rows of the shared state `state_id`."""

    state_id: str
    emitted_to_ms: int


@value("operator_state.window")
class EventTimeBounds(Value):
    """The results emitted of state that is cut by event time: those up to `emitted_to_ms`; None where none was.

    Of the rows in `closed` later ones were emitted too: other subtasks held them, which were further. The time of a
    window's result is its start.

    Where results are emitted again for rows that come late, rows are kept for those later than `closed_to_ms`, if there
    are more of them than were not emitted. Of the rows in `emitted` later ones than `emitted_to_ms` were emitted too.
    """

    emitted_to_ms: int | None = None
    closed: tuple[ClosedTo, ...] = ()
    closed_to_ms: int | None = None
    emitted: tuple[EmittedTo, ...] = ()


@value("operator_state.pending_file")
class PendingFile(Value):
    """A staged file, and its name from when checkpoint `checkpoint_id`, or a later one, is complete.

    What is `in_savepoint` is a copy, which stays. Checkpoints of older versions have no `digest`.
    """

    checkpoint_id: int
    staged: str
    target: str
    in_savepoint: bool = False
    digest: FileDigest | None = None


@value("operator_state.staging_folder")
class StagingFolder(Value):
    """The place where a subtask of a sink, or of a job before, stages its rows: its successor has to clear it."""

    path: str


@value("operator_state.staged_batch")
class StagedBatch(Value):
    """Rows staged for checkpoint `checkpoint_id` as a folder of parquet files; `schema` is Spark's, as JSON.

    What is `in_savepoint` is a copy, which stays. `files` are those in the folder; checkpoints of older versions do not
    name them.
    """

    checkpoint_id: int
    path: str
    schema: str
    in_savepoint: bool = False
    files: tuple[FileDigest, ...] = ()


@value("operator_state.writer")
class WriterState(Value):
    """All that a writer of transactions has staged and not published, in the order of the checkpoints.

    It stays together: the target knows what it has of a writer by the last checkpoint that was published.
    """

    writer: str
    batches: tuple[StagedBatch, ...] = ()


@value("operator_state.element")
class StateElement(Value):
    """An element of a function's operator state: its type as Spark's DDL, and a value of that type as msgpack."""

    type: str
    data: bytes
