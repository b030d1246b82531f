"""State handles: what a checkpoint contains in place of the state itself.

Also the state that operators on the Spark side store in a checkpoint in addition to their batches.
"""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value, value


@value("state.file_digest")
class FileDigest(Value):
    """A written file: its name below the folder of its handle, its size and the xxh3_128 of its bytes."""

    name: str
    size_bytes: int
    digest: bytes


class OperatorStateMode(StrEnum):
    """The redistribution mode of a list of operator state (Flink's OperatorStateHandle.Mode).

    Each element goes to one subtask, every subtask gets the elements of all lists, or every subtask gets the list of
    one subtask.
    """

    SPLIT_DISTRIBUTE = "SPLIT_DISTRIBUTE"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


@value("state.key_group_range")
class KeyGroupRange(Value):
    """Key groups `start` to `end`, both included, as in Flink."""

    start: int
    end: int


@value("state.shared")
class SharedStateHandle(Value):
    """An immutable batch of keyed state in the job's `shared/` folder, written once, referenced by many checkpoints.

    `state_id` is the key of the SharedStateRegistry. `path`, absolute or an fsspec address, is a folder or a file.
    `key_groups` are those to which its rows may belong, or None if unknown. `state_name` is the name of the state, if
    the operator has several; the state of windows has none. `files` are all files of the folder, or empty in
    checkpoints of older versions.
    """

    state_id: str
    path: str
    rows: int
    size_bytes: int
    key_groups: KeyGroupRange | None = None
    state_name: str = ""
    files: tuple[FileDigest, ...] = ()


@value("state.exclusive")
class ExclusiveStateHandle(Value):
    """A file or folder of state that belongs to one checkpoint only and is deleted with it. Savepoints contain only
    such state.

    `state_name` is the name of keyed state, and `files` are all files of the folder, as in `SharedStateHandle`.
    """

    path: str
    size_bytes: int
    state_name: str = ""
    files: tuple[FileDigest, ...] = ()


@value("state.operator_schema")
class OperatorStateSchema(Value):
    """The schema of a list of operator state: its name, the type of its elements as Spark's DDL, and its mode."""

    name: str
    element: str
    mode: OperatorStateMode


@value("state.schema")
class StateSchema(Value):
    """The schema of keyed state, as Spark's DDL: the keys, the values of each key, and the windows.

    If the values are partial aggregates, `merged_by` names for each value the function that merges two of them: sum,
    min or max. `operator_state` are the lists of a function; without keyed state the texts are empty.
    """

    keys: str = ""
    columns: str = ""
    windows: str = ""
    merged_by: tuple[str, ...] = ()
    operator_state: tuple[OperatorStateSchema, ...] = ()

    @property
    def is_keyed(self) -> bool:
        return bool(self.keys or self.columns)


@value("state.in_flight")
class InFlightRows(Value):
    """The rows of in-flight batches, in one folder. Event times are in ms, or None without an event-time column."""

    path: str
    rows: int
    size_bytes: int
    event_time_min: int | None = None
    event_time_max: int | None = None
    files: tuple[FileDigest, ...] = ()


@value("state.input_channel")
class InputChannelStateHandle(Value):
    """Batches that an unaligned barrier overtook before they reached input gate `gate`.

    If the parallelism has changed, only the rows of `key_groups` belong to this subtask (None: all rows do).
    """

    gate: int
    in_flight: InFlightRows
    key_groups: KeyGroupRange | None = None


@value("state.result_subpartition")
class ResultSubpartitionStateHandle(Value):
    """Batches that an unaligned barrier overtook in a subpartition of output `output`.

    `subpartitions` is the number of subpartitions at that time: with another number the rows would belong elsewhere.
    """

    output: int
    subpartition: int
    subpartitions: int
    in_flight: InFlightRows


@value("state.operator_list")
class OperatorListState(Value):
    """A named list of an operator's state in one subtask. An element is msgpack that only the operator reads."""

    name: str
    elements: tuple[bytes, ...] = ()
    mode: OperatorStateMode = OperatorStateMode.SPLIT_DISTRIBUTE


@value("state.partition_watermark")
class PartitionWatermark(Value):
    """The watermark (ms) of one partition of a source."""

    partition: str
    watermark_ms: int


@value("state.watermark")
class WatermarkState(Value):
    """The watermark (ms) of a task at the barrier and, for a partitioned source, the watermarks of its partitions.

    WATERMARK_MIN, which occurs only in restored state, restarts event time: a source has started that was not part of
    the checkpoint.
    """

    watermark_ms: int
    partitions: tuple[PartitionWatermark, ...] = ()


@value("state.operator_subtask")
class OperatorSubtaskState(Value):
    """The state of one operator in one subtask.

    `operator_state` are its lists (unread splits, pending commits). If the parallelism has changed, several may have
    the same name. `shared` are the batches of keyed state to which it refers; only the rows of `key_groups` in them
    belong to the state. `keyed_state` is the operator's own msgpack that describes how to read them. `written_as` is
    the schema of these batches if it differs from that of the reading operator. `exclusive` state belongs to this
    checkpoint only. In an unaligned checkpoint the head of the chain has a separate state with the batches in flight
    into and out of the subtask; their folders are `exclusive` too. An operator that uses or creates event time has a
    separate state with its `watermark`, and so has the head of its chain.
    """

    operator_id: OperatorId
    operator_state: tuple[OperatorListState, ...] = ()
    shared: tuple[SharedStateHandle, ...] = ()
    key_groups: KeyGroupRange | None = None
    exclusive: tuple[ExclusiveStateHandle, ...] = ()
    input_channels: tuple[InputChannelStateHandle, ...] = ()
    result_subpartitions: tuple[ResultSubpartitionStateHandle, ...] = ()
    keyed_state: bytes = b""
    written_as: StateSchema | None = None
    watermark: WatermarkState | None = None


@value("state.task_snapshot")
class TaskStateSnapshot(Value):
    """The state of one subtask: the states of the operators of its chain, in chain order."""

    operators: tuple[OperatorSubtaskState, ...] = ()


COMMITTABLES = "committables"
"""The name of the list state of a sink that contains its staged and not yet committed output (Flink's committables)."""


@value("operator_state.closed_to")
class ClosedTo(Value):
    """Rows of the shared state `state_id` only count for results later than `closed_to_ms`."""

    state_id: str
    closed_to_ms: int


@value("operator_state.emitted_to")
class EmittedTo(Value):
    """The results up to `emitted_to_ms` were emitted with the rows of the shared state `state_id`."""

    state_id: str
    emitted_to_ms: int


@value("operator_state.window")
class EventTimeBounds(Value):
    """The bounds of emitted results of state in event-time windows: results up to `emitted_to_ms` (None: no result
    yet).

    For the rows in `closed`, later results were emitted too, by other subtasks that held these rows and were ahead. The
    time of a window's result is its start.

    If late rows cause results to be emitted again, rows are also retained for emitted results later than `closed_to_ms`
    (None: only for results that are not emitted yet). For the rows in `emitted`, results later than `emitted_to_ms`
    were emitted too.
    """

    emitted_to_ms: int | None = None
    closed: tuple[ClosedTo, ...] = ()
    closed_to_ms: int | None = None
    emitted: tuple[EmittedTo, ...] = ()


@value("operator_state.pending_file")
class PendingFile(Value):
    """A staged file, and the name that it gets when checkpoint `checkpoint_id`, or a later one, is complete.

    A file `in_savepoint` is a copy that is retained. Checkpoints of older versions have no `digest`.
    """

    checkpoint_id: int
    staged: str
    target: str
    in_savepoint: bool = False
    digest: FileDigest | None = None


@value("operator_state.staging_folder")
class StagingFolder(Value):
    """The folder in which a sink's subtask, perhaps of an earlier job, stages rows. Its successor must clear it."""

    path: str


@value("operator_state.staged_batch")
class StagedBatch(Value):
    """Rows staged for checkpoint `checkpoint_id` as a folder of parquet files. `schema` is Spark's, as JSON.

    A batch `in_savepoint` is a copy that is retained. `files` are the files in the folder, empty in checkpoints of
    older versions.
    """

    checkpoint_id: int
    path: str
    schema: str
    in_savepoint: bool = False
    files: tuple[FileDigest, ...] = ()


@value("operator_state.writer")
class WriterState(Value):
    """Everything that a writer of transactions has staged and not published, ordered by checkpoint.

    The state is never split: the target identifies a writer's published rows by the last published checkpoint.
    """

    writer: str
    batches: tuple[StagedBatch, ...] = ()


@value("operator_state.element")
class StateElement(Value):
    """An element of a function's operator state: its type as Spark's DDL, and a value of that type as msgpack."""

    type: str
    data: bytes
