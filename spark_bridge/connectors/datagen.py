"""DataGenSource: rows computed from their index (Flink's DataGeneratorSource, with the options of its datagen
connector).

Built-in generators are functions of a row's index, of the seed and of their field's name. Random values are a hash of
the three, so a row is the same in every batch, attempt and run, and two fields are independent. `F.rand` would generate
the same values again in every batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from flykka.messages.tasks.source import IndexRangeSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.functions.times import MICROS_PER_MS, micros_of
from flykka.spark_bridge.program.prototype import PrototypeError, transformed
from flykka.spark_bridge.program.row_wise import works_row_by_row
from flykka.spark_bridge.program.source import (
    SPLITS_PER_LOOK,
    Boundedness,
    Source,
    SplitNumbers,
    number_of_position,
    positive,
    split_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices


INDEX = "index"
"""The column that a generator reads: the index of the row, from 0."""

_LONG_RANGE = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    seed: int

    def chance(self) -> Column:
        """Return a pseudo-random 64-bit number, which is the same whenever the row is computed."""
        return F.xxhash64(F.lit(self.seed).cast("bigint"), F.lit(self.name), F.col(INDEX))


FieldGenerator = Callable[[Field], "Column"]


def sequence(start: int = 0, step: int = 1) -> FieldGenerator:
    """Generate `start`, `start + step`, ... as a bigint."""
    return lambda field: F.col(INDEX) * F.lit(step).cast("bigint") + F.lit(start).cast("bigint")


def random_int(minimum: int, maximum: int) -> FieldGenerator:
    """Generate integers from `minimum` to `maximum`, both included, as a bigint.

    Raises:
        ValueError: the minimum exceeds the maximum, or their difference exceeds a bigint.
    """
    _check_order(minimum, maximum)
    if not -_LONG_RANGE <= minimum <= maximum < _LONG_RANGE or maximum - minimum >= _LONG_RANGE - 1:
        raise ValueError(f"random_int({minimum}, {maximum}) does not fit into a bigint")
    width = maximum - minimum + 1
    return lambda field: F.pmod(field.chance(), F.lit(width).cast("bigint")) + F.lit(minimum).cast("bigint")


def random_double(minimum: float, maximum: float) -> FieldGenerator:
    """Generate doubles from `minimum` to below `maximum`. Raises `ValueError` if the minimum is not smaller."""
    _check_order(minimum, maximum)
    # A double has 53 significant bits.
    part = 2.0**-53
    return lambda field: (
        F.shiftrightunsigned(field.chance(), 11) * F.lit(part) * F.lit(float(maximum - minimum)) + F.lit(float(minimum))
    )


def choice(*values: str | int | float | bool) -> FieldGenerator:
    """Generate values drawn from `values` with equal probability, all of one type. Raises `ValueError` for none."""
    if not values:
        raise ValueError("choice() needs at least one value")
    return lambda field: F.element_at(
        F.array(*(F.lit(value) for value in values)), (F.pmod(field.chance(), F.lit(len(values))) + 1).cast("int")
    )


def timestamps(start: datetime | str, step: Duration) -> FieldGenerator:
    """Generate `start`, `start + step`, ... The start is a datetime or ISO text, in UTC unless it has a time zone.

    Raises:
        ValueError: the text is not a time.
        DurationError: the step cannot be parsed, or is negative.
    """
    begin = datetime.fromisoformat(start) if isinstance(start, str) else start
    first = micros_of(begin)
    step_micros = duration_ms(step, "step of the timestamps") * MICROS_PER_MS
    return lambda field: F.timestamp_micros(
        F.col(INDEX) * F.lit(step_micros).cast("bigint") + F.lit(first).cast("bigint")
    )


def _check_order(minimum: float, maximum: float) -> None:
    if minimum > maximum:
        raise ValueError(f"the minimum {minimum} lies above the maximum {maximum}")


_INDEXES = StructType([StructField(INDEX, LongType(), nullable=False)])
_ROWS_PER_CORE = 50_000


@dataclass(frozen=True, slots=True)
class DataGenSource(Source):
    """Rows computed from their index: row n is the same in every batch, attempt and run.

    `generator` maps fields to columns over `index` (bigint, from 0) or to functions of `flykka.datagen`; or it is a
    function from a DataFrame with the column `index` to rows, one for each index. If `number_of_rows` is None the
    source is unbounded. `rows_per_second` counts from the start of the job; without it rows are computed as fast as
    they are read. A batch has `rows_per_batch` rows, or fewer if no more are due.

    Raises:
        ValueError: a number is not positive, there is no field, or neither a number of rows nor a rate is set.
    """

    generator: Mapping[str, Column | FieldGenerator] | Callable[[DataFrame], DataFrame]
    _: KW_ONLY
    number_of_rows: int | None
    rows_per_second: float | None = None
    rows_per_batch: int = 100_000
    seed: int = 0
    event_time: str | None = None

    def __post_init__(self) -> None:
        positive(self.rows_per_batch, "rows per batch")
        if self.number_of_rows is not None:
            positive(self.number_of_rows, "number of rows")
        elif self.rows_per_second is None:
            raise ValueError("a source without an end needs rows_per_second: without it all rows would be due at once")
        if self.rows_per_second is not None and not 0 < self.rows_per_second < math.inf:
            raise ValueError(f"rows per second must be above 0, not {self.rows_per_second!r}")
        if not callable(self.generator) and not self.generator:
            raise ValueError("a DataGenSource needs at least one field")

    @property
    def boundedness(self) -> Boundedness:
        """Unbounded if there is no number of rows."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.number_of_rows is None else Boundedness.BOUNDED

    @property
    def format(self) -> str:
        return "datagen"

    def __str__(self) -> str:
        return self.format if self.number_of_rows is None else f"{self.format} of {self.number_of_rows} rows"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        self.prototype(session)
        if not works_row_by_row(session, _INDEXES, [self._generated]):
            raise PrototypeError(
                "every row must be computed from its index alone: without Spark's random numbers (flykka.datagen has"
                " some), aggregates, sorts, joins or windows"
            )
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        return transformed(session.createDataFrame([], _INDEXES), self._generated)

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> IndexRangeDiscovery:
        return IndexRangeDiscovery(self, operator_id)

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        """Return the number of indexes, unless the generator is a function, which may drop rows."""
        return SplitNumbers(rows=None if callable(self.generator) else split_of(IndexRangeSplit, split, self).rows)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        ranges = (split_of(IndexRangeSplit, split, self) for split in splits)
        return tuple(rows for each in ranges for rows in self._rows(session, each, in_slices=in_slices))

    def _rows(self, session: SparkSession, split: IndexRangeSplit, *, in_slices: bool) -> Slices:
        cores = max(1, session.sparkContext.defaultParallelism)
        partitions = min(cores, math.ceil(split.rows / _ROWS_PER_CORE))
        if in_slices:
            bounds = [split.start + split.rows * part // partitions for part in range(partitions + 1)]
            frames = [self._indexes(session, first, behind - first, 1) for first, behind in pairwise(bounds)]
        else:
            frames = [self._indexes(session, split.start, split.rows, partitions)]
        return tuple(self._generated(frame) for frame in frames)

    def _generated(self, indexes: DataFrame) -> DataFrame:
        if callable(self.generator):
            return self.generator(indexes)
        return indexes.select(
            *(self._column(name, generator).alias(name) for name, generator in self.generator.items())
        )

    def _column(self, name: str, generator: Column | FieldGenerator) -> Column:
        return generator if isinstance(generator, Column) else generator(Field(name=name, seed=self.seed))

    def _indexes(self, session: SparkSession, first: int, rows: int, partitions: int) -> DataFrame:
        """Return a range of indexes.

        The first index differs from batch to batch, and Spark inlines integers into generated code. Decimals are passed
        by reference, so the code is compiled only once.
        """
        index = (F.col("id").cast("decimal(17,0)") + F.lit(Decimal(first))).cast("bigint")
        return session.range(0, rows, 1, partitions).select(index.alias(INDEX))


_SPLITS_MAX = 1000
_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 1000


class IndexRangeDiscovery:
    """Discovers ranges of row indexes that are due. Not thread-safe.

    The id of a split is `first row+rows`. Ranges are discovered in order and without gaps, so the position of a
    discovery is the index of the next row.

    With a rate, time starts at the first discovery. Rows that were due while the source was not read are discovered
    later, as in a queue.
    """

    changed: Callable[[], bool] | None = None

    def __init__(
        self, source: DataGenSource, operator_id: OperatorId, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._operator_id = operator_id
        self._clock = clock
        self._begun: tuple[float, int] | None = None
        self.interval_ms = self._interval_ms()

    def discover(self, position: bytes) -> SplitsDiscovered:
        first = number_of_position(position)
        due = self._due(first)
        end = min(due, first + self._splits_max * self._source.rows_per_batch)
        last = self._source.number_of_rows
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(self._ranges(first, end)),
            finished=last is not None and end >= last,
            begun_at=position,
            position=b"%d" % max(first, end),
            # With a rate, the remaining rows wait for the next discovery, however high the rate is.
            more=end < due and self._source.rows_per_second is None,
        )

    def _due(self, first: int) -> int:
        """Return the index before which all rows are due, if the first discovery begins at row `first`."""
        last, rate = self._source.number_of_rows, self._source.rows_per_second
        if rate is None:
            assert last is not None, "the source has neither a rate nor a number of rows"
            return last
        if self._begun is None:
            self._begun = self._clock(), first
        at, row = self._begun
        due = row + math.floor((self._clock() - at) * rate)
        return due if last is None else min(due, last)

    @property
    def _splits_max(self) -> int:
        return SPLITS_PER_LOOK if self._source.rows_per_second is None else _SPLITS_MAX

    def _ranges(self, first: int, end: int) -> Iterator[IndexRangeSplit]:
        for start in range(first, end, self._source.rows_per_batch):
            rows = min(self._source.rows_per_batch, end - start)
            yield IndexRangeSplit(split_id=SplitId(f"{start}+{rows}"), rows=rows, start=start)

    def _interval_ms(self) -> int | None:
        """Return about the time between two full batches, but at most a delay that observers do not notice."""
        rate = self._source.rows_per_second
        if rate is None:
            return None
        batch_ms = round(1000 * self._source.rows_per_batch / rate)
        return max(_INTERVAL_MS_MIN, min(_INTERVAL_MS_MAX, batch_ms))
