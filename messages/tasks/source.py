"""Splits: units of a source's input, assigned on the JobMaster's side (Flink's SplitEnumerator and its events)."""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.wire.ids import ExecutionAttemptId, OperatorId, SplitId
from flykka.messages.wire.message import Message, Value, message, value


class SourceSplit(Value):
    """A part of a source's input. Concrete splits add the fields of their connector."""

    __slots__ = ()

    split_id: SplitId
    rows: int


@value("source.file_split")
class FileSplit(SourceSplit):
    """Rows `start_row` (from 0) to `start_row + rows` of one file."""

    split_id: SplitId
    path: str
    start_row: int
    rows: int
    whole_file: bool = True


@value("source.file_batch_split")
class FileBatchSplit(SourceSplit):
    """Complete files, or a range of one file, that are read as one batch.

    Text files do not store their number of rows, which counts as 0 until they are read. `event_time_max` (ms) comes
    from the statistics of the files, or is None without statistics. With a `size_bytes` the split may be read in one
    batch with its neighbours; otherwise it is read as a batch of its own.
    """

    split_id: SplitId
    rows: int
    files: tuple[FileSplit, ...]
    event_time_max: int | None = None
    size_bytes: int | None = None


@value("source.partitions_split")
class PartitionsSplit(SourceSplit):
    """Spark partitions of rows that were computed once. Their number of rows is unknown until they are read."""

    split_id: SplitId
    rows: int
    partitions: tuple[int, ...]


@value("source.index_range_split")
class IndexRangeSplit(SourceSplit):
    """Rows that are computed from their numbers, `start` to `start + rows`. For `size_bytes` see FileBatchSplit."""

    split_id: SplitId
    rows: int
    start: int
    size_bytes: int | None = None


@value("source.serialized_split")
class SerializedSplit(SourceSplit):
    """A split that only its connector understands. `content` is JSON text.

    So a trace can be read and replayed without the connector. For `size_bytes` see FileBatchSplit.
    """

    split_id: SplitId
    rows: int
    content: str
    size_bytes: int | None = None


@value("source.partition_time")
class PartitionTime(Value):
    """The latest event time (ms) of the rows read from a partition of the source, or None if there are none.

    The earliest event time is only computed if the order of rows is watched.
    """

    partition: str
    latest_ms: int | None = None
    earliest_ms: int | None = None


def files_in(splits: Iterable[SourceSplit]) -> int:
    """Return the number of files in these splits, 0 for other splits. Each range of a file counts as one file."""
    return sum(len(split.files) for split in splits if isinstance(split, FileBatchSplit))


def size_of(split: SourceSplit) -> int | None:
    """Return the size in bytes of a split that may be read with its neighbours, or None if it is read on its own."""
    return split.size_bytes if isinstance(split, FileBatchSplit | IndexRangeSplit | SerializedSplit) else None


@value("source.unread_split")
class UnreadSplit(Value):
    """A split that a reader holds and has not read. The state of a reader in a checkpoint is a list of these.

    `number` is its index (from 0) among the splits that the source has assigned. A reader that takes over the splits of
    several readers reads them in that order, because otherwise rows would become late.
    """

    split: SourceSplit
    number: int


@value("source.enumerator_state")
class SplitEnumeratorState(Value):
    """The state of a split enumerator in a checkpoint: the unassigned splits, in order, and the next discovery's
    position.

    The format of `position` is private to the discovery. `handed_out` counts the assigned splits, including returned
    ones. `assigned` is only read: states of old versions list the assigned splits in it.
    """

    unassigned: tuple[SourceSplit, ...] = ()
    assigned: tuple[SplitId, ...] = ()
    finished: bool = False
    handed_out: int = 0
    position: bytes = b""


@message("source.request_splits")
class RequestSplits(Message):
    """Task -> JobMaster: this reader can accept `count` more splits."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    count: int


@message("source.add_splits")
class AddSplits(Message):
    """JobMaster -> TaskManager -> Task: read these splits in order. `numbers` are their indexes among all splits."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    numbers: tuple[int, ...] = ()


@message("source.no_more_splits")
class NoMoreSplits(Message):
    """JobMaster -> TaskManager -> Task: the input ends when the splits that the reader holds are read."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId


@message("source.reported_watermark")
class ReportedWatermark(Message):
    """Task -> JobMaster: the watermark of a reader of an aligned source. An idle reader does not limit the others.

    WATERMARK_MIN means that it knows no event time yet, WATERMARK_MAX that it has read all of its input.
    """

    attempt: ExecutionAttemptId
    watermark_ms: int
    is_idle: bool = False


@message("source.align_watermark")
class AlignWatermark(Message):
    """JobMaster -> TaskManager -> Task: pause while the reader's watermark is above `max_watermark_ms`."""

    attempt: ExecutionAttemptId
    max_watermark_ms: int


@message("source.splits_discovered")
class SplitsDiscovered(Message):
    """data plane -> JobMaster: the splits that a discovery has found. `finished` is set if there will be no more.

    The discovery started at the position `begun_at`, and the next discovery starts at `position`. If `more` is set,
    `files_left` files remain and the next discovery need not wait. Otherwise it starts `interval_ms` later (None: there
    is no next one). If the source's path does not exist, `missing_path` is that path as the user wrote it. `retained`
    describes data that the external system retains for the source and would otherwise delete.
    """

    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    finished: bool
    begun_at: bytes = b""
    position: bytes = b""
    more: bool = False
    interval_ms: int | None = None
    files_left: int = 0
    missing_path: str | None = None
    retained: str | None = None
