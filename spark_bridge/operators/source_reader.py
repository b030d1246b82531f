"""Readers of sources: read the rows of splits, and determine row counts and event times without reading twice.

Many sources know the row count and the latest event time, for example from the statistics of parquet files. All other
numbers are observed before the operators of the chain, so that a filter does not hold the watermark back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F

from flykka.actors.machines.attempt.source import cost_of
from flykka.messages.tasks.source import PartitionTime
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.program.event_time import EARLIEST, LATEST, times_of_watermarks
from flykka.spark_bridge.rows.batches import LazyRows
from flykka.spark_bridge.rows.marks import IS_CORRUPT, PARTITION, without_marks
from flykka.spark_bridge.rows.materialise import Slices, estimated_bytes, is_complete, numbers_of, with_observation
from flykka.spark_bridge.rows.prepared import StableColumns
from flykka.spark_bridge.session.interpretation import INTERPRETED_ROWS, interpreted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.messages.tasks.source import SourceSplit
    from flykka.messages.wire.ids import JobVertexId
    from flykka.spark_bridge.program.source import Source

INTERPRETED_COST = 1024**2
"""Maximum cost of splits whose rows are processed by interpreted plans."""

LAZY_COST = 8 * 1024**2
"""Maximum cost of splits, in the units of a `ReadLimit`, that the next stage reads itself. The source reads splits with
a higher cost and measures the time.

It equals 32 small files, more than arrive while stages of other sources keep the cores busy. With a lower limit,
sources that have once fallen behind would continue to read by themselves, and delay each other.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceNumbers:
    """The number of rows, and the latest event time in ms; None if unknown, or if no row has an event time.

    The earliest event time is known only if the order of the rows is watched. If rows mark watermarks, only the event
    times of these rows count.
    """

    rows: int | None
    event_time_max: int | None
    event_time_min: int | None = None
    partition_times: tuple[PartitionTime, ...] = ()
    corrupt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of some splits, and access to their row count and event times once an action has read them.

    `observed` are the rows as the source has read them, with marker columns for the reader only.
    """

    observed: Slices
    known: SourceNumbers
    observations: tuple[Observation, ...] = ()
    aggregates: Mapping[str, Column] = field(default_factory=dict)
    partitions: Sequence[str] = ()
    counts_corrupt: bool = False

    @property
    def slices(self) -> Slices:
        return tuple(without_marks(rows) if self.partitions or self.counts_corrupt else rows for rows in self.observed)

    def numbers(self) -> SourceNumbers:
        """Return the row count and event times. May only be called after the rows were computed."""
        if not self.observations:
            return self.known
        for observed, observation in zip(self.observed, self.observations, strict=True):
            if not is_complete(observation):
                # A function has ignored its input, but event time must advance nevertheless.
                observed.write.format("noop").mode("overwrite").save()
        observed_numbers = [
            numbers_of(observation) or self._aggregated(observed)
            for observed, observation in zip(self.observed, self.observations, strict=True)
        ]
        rows, latest = self.known.rows, self.known.event_time_max
        if rows is None:
            rows = sum(int(each.get(_ROWS) or 0) for each in observed_numbers)
        if latest is None:
            latest = max(_millis(observed_numbers, LATEST), default=None)
        earliest = min(_millis(observed_numbers, EARLIEST), default=None)
        times = tuple(
            PartitionTime(
                partition=partition,
                latest_ms=max(_millis(observed_numbers, _of_partition(LATEST, place)), default=None),
                earliest_ms=min(_millis(observed_numbers, _of_partition(EARLIEST, place)), default=None),
            )
            for place, partition in enumerate(self.partitions)
        )
        return SourceNumbers(
            rows=rows,
            event_time_max=latest,
            event_time_min=earliest,
            partition_times=times,
            corrupt=sum(int(each.get(IS_CORRUPT) or 0) for each in observed_numbers),
        )

    def _aggregated(self, rows: DataFrame) -> Mapping[str, Any]:
        """Compute the numbers with a separate query: Spark's optimizer skips rows that no filter passes."""
        (aggregated,) = rows.agg(*(column.alias(name) for name, column in self.aggregates.items())).collect()
        return aggregated.asDict()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReader:
    """Reads the splits of one source, for all of its subtasks and attempts.

    With `in_slices`, downstream operators work row by row. The other fields are the fields of the source's code.
    """

    uid: str
    session: SparkSession
    source: Source
    schema: StructType
    in_slices: bool
    punctuation: Column | str | None = None
    watches_order: bool = False
    columns: StableColumns = field(default_factory=StableColumns)

    def read(self, splits: tuple[SourceSplit, ...]) -> SourceRows:
        frames = self.source.read(self.session, self.schema, splits, in_slices=self.in_slices)
        known, partitions = self._known(splits), self.source.partitions_of(splits)
        if _cost(splits) <= INTERPRETED_COST if known.rows is None else known.rows <= INTERPRETED_ROWS:
            frames = tuple(interpreted(each) for each in frames)
        if len(frames) == 1:
            frames = (self.columns.of(frames[0]),)
        aggregates = self._to_count(known, partitions)
        rows = (
            observed_rows(frames, aggregates, known)
            if aggregates and frames
            else SourceRows(observed=frames, known=known)
        )
        return replace(rows, partitions=partitions, counts_corrupt=self.source.counts_corrupt)

    def lazy_rows(self, splits: tuple[SourceSplit, ...]) -> LazyRows | None:
        """Return rows of splits that the next stage can read itself; None if these are many, or must be counted."""
        known, is_little = self._known(splits), _cost(splits) <= LAZY_COST
        if known.rows is None or self._to_count(known, self.source.partitions_of(splits)) or not is_little:
            return None
        return LazyRows(
            uid=self.uid,
            splits=splits,
            read=self._slices,
            rows=known.rows,
            size_bytes=estimated_bytes(self.schema, known.rows),
            event_time_max=known.event_time_max,
        )

    def _slices(self, splits: tuple[SourceSplit, ...]) -> Slices:
        return self.read(splits).slices

    def _known(self, splits: tuple[SourceSplit, ...]) -> SourceNumbers:
        numbers = [self.source.numbers_of(split) for split in splits]
        rows = [each.rows for each in numbers if each.rows is not None]
        times = [each.event_time_max for each in numbers if each.event_time_max is not None]
        # A source knows the event times of all rows, but not which rows mark watermarks.
        knows_latest = times and len(times) == len(numbers) and self.punctuation is None
        return SourceNumbers(
            rows=sum(rows) if len(rows) == len(numbers) else None,
            event_time_max=max(times) if knows_latest else None,
        )

    def _to_count(self, known: SourceNumbers, partitions: Sequence[str]) -> Mapping[str, Column]:
        aggregates: dict[str, Column] = {}
        if known.rows is None:
            aggregates[_ROWS] = F.count(F.lit(1))
        if self.source.counts_corrupt:
            aggregates[IS_CORRUPT] = F.count_if(IS_CORRUPT)
        if self.source.event_time is None:
            return aggregates
        event_time = EventTime(column=self.source.event_time)
        aggregates |= times_of_watermarks(event_time, self.punctuation, watches_order=self.watches_order)
        if known.event_time_max is not None:
            del aggregates[LATEST]
        for place in range(len(partitions)):
            is_own = F.col(PARTITION) == F.lit(place)
            times = times_of_watermarks(event_time, self.punctuation, watches_order=self.watches_order, where=is_own)
            aggregates |= {_of_partition(name, place): time for name, time in times.items()}
        return aggregates


class SourceReaders:
    """The readers of one job's sources, each created once because testing a function on a probe is slow.

    With `lazy_reading`, the next stage reads a few small files itself. Thread-safe.
    """

    def __init__(self, session: SparkSession, *, lazy_reading: bool = True) -> None:
        self.lazy_reading = lazy_reading
        self._session = session
        self._readers: dict[JobVertexId, SourceReader] = {}

    def reader(self, vertex_id: JobVertexId, make: Callable[[SparkSession], SourceReader]) -> SourceReader:
        reader = self._readers.get(vertex_id)
        # Two threads may create equal readers. Only the first reader is used.
        return reader or self._readers.setdefault(vertex_id, make(self._session))


def _cost(splits: tuple[SourceSplit, ...]) -> float:
    """Return the cost of splits in the units of a `ReadLimit`, infinite if it is unknown."""
    return sum(inf if (cost := cost_of(split)) is None else cost for split in splits)


def observed_rows(slices: Slices, aggregates: Mapping[str, Column], known: SourceNumbers) -> SourceRows:
    """Return the rows of slices. Numbers that are not `known` are observed by the aggregates."""
    observations, frames = zip(*(with_observation(rows, aggregates) for rows in slices), strict=True)
    return SourceRows(observed=frames, known=known, observations=observations, aggregates=aggregates)


def _millis(observed_numbers: Iterable[Mapping[str, Any]], name: str) -> list[int]:
    return [in_ms(micros) for each in observed_numbers if (micros := each.get(name)) is not None]


def _of_partition(name: str, place: int) -> str:
    return f"{name}/{place}"


_ROWS = "rows"
