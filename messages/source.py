"""Splits: what a source reads, handed out on the JobMaster's side (Flink's SplitEnumerator and its events)."""

from __future__ import annotations

from flykka.messages.ids import ExecutionAttemptId, OperatorId, SplitId
from flykka.messages.message import Message, Value, message, value


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
    `event_time_max` (ms) is taken from the statistics of the files; None where they have none.
    """

    split_id: SplitId
    rows: int
    files: tuple[FileSplit, ...]
    event_time_max: int | None = None


@value("source.partitions_split")
class PartitionsSplit(SourceSplit):
    """Spark partitions of rows that were computed once. How many rows they have, nobody knows until they are read."""

    split_id: SplitId
    rows: int
    partitions: tuple[int, ...]


@value("source.index_range_split")
class IndexRangeSplit(SourceSplit):
    """Rows that are made of their numbers, `start` to `start + rows`."""

    split_id: SplitId
    rows: int
    start: int


@value("source.reader_state")
class SplitReaderState(Value):
    """State of a source reader in a checkpoint: the splits it holds and has not read, in reading order."""

    splits: tuple[SourceSplit, ...] = ()


@value("source.enumerator_state")
class SplitEnumeratorState(Value):
    """State of a split enumerator in a checkpoint: what waits for a reader, in order, and what readers have got."""

    unassigned: tuple[SourceSplit, ...] = ()
    assigned: tuple[SplitId, ...] = ()
    finished: bool = False


@message("source.request_splits")
class RequestSplits(Message):
    """Task -> JobMaster: this reader can take `count` more splits."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    count: int


@message("source.add_splits")
class AddSplits(Message):
    """JobMaster -> TaskManager -> Task: read these, in this order."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]


@message("source.no_more_splits")
class NoMoreSplits(Message):
    """JobMaster -> TaskManager -> Task: when the splits you hold are read, the input is at its end."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId


@message("source.splits_discovered")
class SplitsDiscovered(Message):
    """data plane -> JobMaster: what a look at the source found since the last one; `finished` when no more can come."""

    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    finished: bool
