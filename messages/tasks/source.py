"""Splits: what a source reads, handed out on the JobMaster's side (Flink's SplitEnumerator and its events)."""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.wire.ids import ExecutionAttemptId, OperatorId, SplitId
from flykka.messages.wire.message import Message, Value, message, value


class SourceSplit(Value):
    """A piece of a source's input. Concrete splits add what their connector needs."""

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
    """Whole files, or a range of one, that are read as one batch.

    Files of text do not say how many rows they have: theirs count as none, until they are read.
    `event_time_max` (ms) is taken from the statistics of the files; None where they have none. With a `size_bytes` they
    may be read in one batch with the splits beside them; without they are a batch by themselves.
    """

    split_id: SplitId
    rows: int
    files: tuple[FileSplit, ...]
    event_time_max: int | None = None
    size_bytes: int | None = None


@value("source.partitions_split")
class PartitionsSplit(SourceSplit):
    """Spark partitions of rows that were computed once. How many rows they have, nobody knows until they are read."""

    split_id: SplitId
    rows: int
    partitions: tuple[int, ...]


@value("source.index_range_split")
class IndexRangeSplit(SourceSplit):
    """Rows that are made of their numbers, `start` to `start + rows`. `size_bytes` is as that of a FileBatchSplit."""

    split_id: SplitId
    rows: int
    start: int
    size_bytes: int | None = None


@value("source.serialized_split")
class SerializedSplit(SourceSplit):
    """A split that its connector alone understands; `content` is a text of JSON.

    So what was recorded is read and replayed where the connector is not installed. `size_bytes` is as that of a
    FileBatchSplit.
    """

    split_id: SplitId
    rows: int
    content: str
    size_bytes: int | None = None


@value("source.partition_time")
class PartitionTime(Value):
    """The latest event time (ms) of the rows read of a partition of the source; None where none of them has one.

    The earliest is looked for only where the order of rows is watched.
    """

    partition: str
    latest_ms: int | None = None
    earliest_ms: int | None = None


def files_in(splits: Iterable[SourceSplit]) -> int:
    """The number of files of these splits, where they are of files; each range of a file counts as one."""
    return sum(len(split.files) for split in splits if isinstance(split, FileBatchSplit))


def size_of(split: SourceSplit) -> int | None:
    """The size in bytes of a split that may be read with those beside it; None where it is a batch by itself."""
    return split.size_bytes if isinstance(split, FileBatchSplit | IndexRangeSplit | SerializedSplit) else None


@value("source.unread_split")
class UnreadSplit(Value):
    """A split that a reader holds and has not read; its state in a checkpoint is a list of them.

    It was the source's split number `number` (from 0) to be handed out: a reader that goes on with the splits of
    several reads them in that order, or rows would come late that were not.
    """

    split: SourceSplit
    number: int


@value("source.enumerator_state")
class SplitEnumeratorState(Value):
    """State of a split enumerator in a checkpoint: what waits for a reader, in order, and where the next look begins.

    `position` is the discovery's own. `handed_out` is how many splits readers have got, given back or not. `assigned`
    has no more use: states of old name in it what readers had got.
    """

    unassigned: tuple[SourceSplit, ...] = ()
    assigned: tuple[SplitId, ...] = ()
    finished: bool = False
    handed_out: int = 0
    position: bytes = b""


@message("source.request_splits")
class RequestSplits(Message):
    """Task -> JobMaster: this reader can take `count` more splits."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    count: int


@message("source.add_splits")
class AddSplits(Message):
    """JobMaster -> TaskManager -> Task: read these, in this order; the source had handed out `numbers` before each."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    numbers: tuple[int, ...] = ()


@message("source.no_more_splits")
class NoMoreSplits(Message):
    """JobMaster -> TaskManager -> Task: when the splits you hold are read, the input is at its end."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId


@message("source.reported_watermark")
class ReportedWatermark(Message):
    """Task -> JobMaster: this reader of an aligned source is so far in event time, or holds nobody back if it is idle.

    WATERMARK_MIN: it knows no event time yet. WATERMARK_MAX: it has read all that there is.
    """

    attempt: ExecutionAttemptId
    watermark_ms: int
    is_idle: bool = False


@message("source.align_watermark")
class AlignWatermark(Message):
    """JobMaster -> TaskManager -> Task: do not read on while your watermark is above `max_watermark_ms`."""

    attempt: ExecutionAttemptId
    max_watermark_ms: int


@message("source.splits_discovered")
class SplitsDiscovered(Message):
    """data plane -> JobMaster: what a look at the source found; `finished` when no more can come.

    It began at the position `begun_at`, and the next one begins at `position`. `more` is there already, `files_left`
    files, and comes with the next look, which need not wait. Any other next look is taken `interval_ms` later; without
    one there is none. Where nothing is at the place that is looked at, `missing_path` is that place as the user wrote
    it. `retained` says what the other side keeps for the source, which it would else delete.
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
