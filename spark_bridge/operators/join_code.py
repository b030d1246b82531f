"""The code of joins: column expressions over the two sides, or functions of co-groups.

The columns of the sides are `left.name` and `right.name`, or just `name` if only one side has it: Spark resolves them
over DataFrames with these aliases. State contains rows as they arrive from the exchange; Spark's hash joins join them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from flykka.actors.machines.joins.interval_segments import UNBOUNDED_MS, Interval
from flykka.actors.machines.state.schema_evolution import quoted
from flykka.actors.machines.state.segments import latest
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.join import Closing, JoinOperator, RegularJoinOperator, Side
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide
from flykka.spark_bridge.operators.window import Arrived
from flykka.spark_bridge.program.aggregates import TIME
from flykka.spark_bridge.program.event_time import instant
from flykka.spark_bridge.program.expressions import columns_read_of_sides
from flykka.spark_bridge.program.prototype import PrototypeError, transformed
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.materialise import counted, is_complete, numbers_of, together
from flykka.spark_bridge.rows.type_support import nullable
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend, StateLayout
from flykka.spark_bridge.worker.frames import grouping_frames
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pandas import DataFrame as PandasDataFrame
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from flykka.actors.machines.joins.interval_segments import IntervalSegments
    from flykka.actors.machines.state.segments import Reading, Segment
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Element, Operator
    from flykka.spark_bridge.rows.materialise import Slices

CoGroupFunction: TypeAlias = "Callable[[PandasDataFrame, PandasDataFrame], PandasDataFrame]"

_NO_TIME = Interval(lower_ms=0, upper_ms=0)

_KINDS: Mapping[frozenset[Side], str] = {
    frozenset(): "inner",
    frozenset([Side.LEFT]): "left",
    frozenset([Side.RIGHT]): "right",
    frozenset(Side): "full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCode(OperatorCode):
    """Joins two sides, which have separate state. The first `left_gates` inputs belong to the left side.

    Rows can match if the difference of their times is in `interval`, which is 0 for window joins. `outer` sides also
    emit results for unmatched rows, when these expire.
    """

    kind = OperatorKind.JOIN
    is_head = True
    is_computed = True

    left: JoinSide
    right: JoinSide
    interval: Interval = _NO_TIME
    outer: frozenset[Side] = frozenset()
    left_gates: int = 1

    def needs_order(self, *, readers_do: bool) -> bool:
        return False

    @property
    def sides(self) -> Mapping[Side, JoinSide]:
        return {Side.LEFT: self.left, Side.RIGHT: self.right}

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return tuple(side.late_data for side in Side)

    @property
    def fingerprint(self) -> str:
        sides = "; ".join(f"{side} {of.rows.key_columns_ddl}: {of.rows.structure}" for side, of in self.sides.items())
        return f"{self._what}, {sides})"

    @property
    @abstractmethod
    def _what(self) -> str:
        """Return the kind of the join and its times, for the fingerprint."""

    @abstractmethod
    def previewed(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the results as if these rows were the whole input, for a preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsCode(JoinCode):
    """Emits `columns` of each pair of rows that match and meet the optional `condition`."""

    called: ClassVar[str]
    """The name of the API method, for errors."""

    columns: tuple[Column | str, ...]
    condition: Column | str | None = None

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        joining = SparkPairs(context, self)
        return JoinOperator(context.operator_id, self.interval, joining, joining.backend, self.left_gates, self.outer)

    def results(self, left: DataFrame, right: DataFrame, how: str) -> DataFrame:
        met = self._marked(Side.LEFT, left).join(self._marked(Side.RIGHT, right), self._meets(), how)
        return self._selected(met)

    def unmatched(self, side: Side, rows: DataFrame, others: DataFrame | None) -> DataFrame:
        """Return the results of a side's rows without a match in `others`, which has all their possible matches."""
        alone, no_others = self._marked(side, rows), self.sides[side.other].no_rows(rows)
        if others is not None:
            alone = alone.join(self._marked(side.other, others), self._meets(), "left_anti")
        marked = {side: alone, side.other: self._marked(side.other, no_others)}
        joined = marked[Side.LEFT].join(marked[Side.RIGHT], self._meets(), _KINDS[frozenset([side])])
        return self._selected(joined)

    def previewed(self, left: DataFrame, right: DataFrame) -> DataFrame:
        one, other = (
            side.with_arrival(side.retained(rows), 0) for side, rows in ((self.left, left), (self.right, right))
        )
        return self.results(one, other, _KINDS[self.outer])

    @abstractmethod
    def _met_in_time(self, left: Column, right: Column) -> list[Column]:
        """Return the conditions on the times of two rows, in microseconds."""

    @abstractmethod
    def _selected(self, met: DataFrame) -> DataFrame: ...

    def _marked(self, side: Side, rows: DataFrame) -> DataFrame:
        """Alias rows by their side, and add keys and time as columns outside of that alias."""
        of = self.sides[side]
        marks = [key.alias(_key(side, place)) for place, key in enumerate(of.rows.keys)]
        if (time := of.time) is not None:
            marks.append(time.alias(_time(side)))
        values = (F.col(f"{side}.{quoted(name)}") for name in of.rows.needed)
        return rows.alias(side.value).select(*values, *marks)

    def _meets(self) -> Column:
        keys = [F.col(_key(Side.LEFT, n)) == F.col(_key(Side.RIGHT, n)) for n in range(len(self.left.rows.keys))]
        times = self._met_in_time(F.col(_time(Side.LEFT)), F.col(_time(Side.RIGHT)))
        condition = [] if self.condition is None else [self.condition]
        conditions = (F.expr(each) if isinstance(each, str) else each for each in condition)
        return reduce(and_, [*keys, *times, *conditions])


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinCode(PairsCode):
    """Joins rows with equal keys if the difference of their event times is in the interval.

    With a `time_column`, results have the later of the two event times in a column of that name.
    """

    called = "interval_join"

    time_column: str | None = None

    @property
    def _what(self) -> str:
        return f"interval_join({_KINDS[self.outer]}, {self.interval.lower_ms}, {self.interval.upper_ms}"

    def _met_in_time(self, left: Column, right: Column) -> list[Column]:
        interval = self.interval
        conditions: list[Column] = []
        lower, upper = (left + F.lit(each * MICROS_PER_MS) for each in (interval.lower_ms, interval.upper_ms))
        if interval.has_lower_bound:
            conditions.append(right >= lower if interval.is_lower_inclusive else right > lower)
        if interval.has_upper_bound:
            conditions.append(right <= upper if interval.is_upper_inclusive else right < upper)
        return conditions

    def _selected(self, met: DataFrame) -> DataFrame:
        if self.time_column is None:
            return met.select(*self.columns)
        later = F.greatest(*(F.col(_time(side)) for side in Side))
        return met.select(*self.columns, F.timestamp_micros(later).alias(self.time_column))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularJoinCode(PairsCode):
    """Joins rows with equal keys, whatever their arrival times.

    With a time-to-live, rows expire by processing time, and the interval refers to arrival times.
    """

    kind = OperatorKind.REGULAR_JOIN
    called = "regular_join"

    @classmethod
    def of(
        cls,
        left: JoinSide,
        right: JoinSide,
        *,
        columns: tuple[Column | str, ...],
        condition: Column | str | None,
        left_gates: int,
        time_to_live_ms: int | None,
    ) -> RegularJoinCode:
        """Create the join of two sides. Rows are stored for a time-to-live, or forever if that is None."""
        kept_ms = UNBOUNDED_MS if time_to_live_ms is None else time_to_live_ms
        return cls(
            left=left,
            right=right,
            interval=Interval(lower_ms=-kept_ms, upper_ms=kept_ms),
            columns=columns,
            condition=condition,
            left_gates=left_gates,
        )

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        joining = SparkRegularPairs(context, self)
        return RegularJoinOperator(
            context.operator_id, self.interval, joining, joining.backend, self.left_gates, self.outer
        )

    @property
    def _what(self) -> str:
        retention = f"{self.interval.upper_ms}" if self.interval.has_upper_bound else "for ever"
        return f"regular_join({_KINDS[self.outer]}, {retention}"

    def _met_in_time(self, left: Column, right: Column) -> list[Column]:
        if not self.interval.has_upper_bound:
            return []
        return [F.abs(left - right) <= F.lit(self.interval.upper_ms * MICROS_PER_MS)]

    def _selected(self, met: DataFrame) -> DataFrame:
        return met.select(*self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowJoinCode(PairsCode):
    """Joins rows with equal keys in the same window. Results begin with the window's bounds."""

    called = "window_join"

    windows: EventTimeWindows

    @property
    def _what(self) -> str:
        return f"window_join({_KINDS[self.outer]}, {_cut(self.windows)}"

    def _met_in_time(self, left: Column, right: Column) -> list[Column]:
        return [left == right]

    def _selected(self, met: DataFrame) -> DataFrame:
        end = F.coalesce(*(F.col(_time(side)) for side in Side)) + F.lit(2 * MICROS_PER_MS)
        start = end - F.lit(self.windows.size_ms * MICROS_PER_MS)
        bounds = {WINDOW_START: start, WINDOW_END: end}
        return met.select(*(F.timestamp_micros(each).alias(name) for name, each in bounds.items()), *self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoGroupCode(JoinCode):
    """Passes all rows of both sides of a key and window to a function, as pandas frames with the window's bounds."""

    windows: EventTimeWindows
    function: CoGroupFunction
    output: StructType

    @property
    def _what(self) -> str:
        return f"co_group({_cut(self.windows)}"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        joining = SparkGroups(context, self)
        return JoinOperator(context.operator_id, self.interval, joining, joining.backend, self.left_gates, self.outer)

    def previewed(self, left: DataFrame, right: DataFrame) -> DataFrame:
        return self.grouped(self.left.retained(left), self.right.retained(right))

    def grouped(self, left: DataFrame, right: DataFrame) -> DataFrame:
        one, other = (
            exactly_named(self._with_bounds(rows)).groupBy(*self.sides[side].rows.keys, WINDOW_START)
            for side, rows in ((Side.LEFT, left), (Side.RIGHT, right))
        )
        emitted = arrow_schema(self.output)
        return one.cogroup(other).applyInArrow(grouping_frames(self.function, emitted), nullable(self.output))

    def _with_bounds(self, rows: DataFrame) -> DataFrame:
        end = F.col(TIME) + F.lit(self.windows.size_ms * MICROS_PER_MS)
        bounds = {WINDOW_START: F.timestamp_micros(TIME), WINDOW_END: F.timestamp_micros(end)}
        own = (F.col(quoted(name)) for name in rows.columns if name not in (TIME, *bounds))
        return rows.select(*(column.alias(name) for name, column in bounds.items()), *own)


Drafted = TypeVar("Drafted", bound=PairsCode)


def pairs(
    left: JoinedRows, right: JoinedRows, draft: Callable[[JoinSide, JoinSide], Drafted]
) -> tuple[DataFrame, Drafted]:
    """Return the prototype of the results, and the code that `draft` creates from the sides with the needed columns.

    Raises:
        PrototypeError: the keys of the two sides differ in number or type, a column does not fit or is ambiguous, or
            results are computed across rows.
    """
    check_keys(left, right)
    whole = draft(JoinSide.of(left, left.prototype.columns), JoinSide.of(right, right.prototype.columns))
    prototype = transformed(left.prototype, lambda rows: whole.previewed(rows, right.prototype))
    read = columns_read_of_sides(prototype)
    if read is None:
        raise PrototypeError(
            "the columns of a join are computed from one row of each side: compute other columns after it"
        )
    marks = [name for name in prototype.columns if name.startswith(_MARK)]
    if marks:
        raise PrototypeError("'*' would select both sides together: write 'left.*' and 'right.*'")
    of_left, of_right = read
    return prototype, draft(JoinSide.of(left, of_left), JoinSide.of(right, of_right))


def check_keys(left: JoinedRows, right: JoinedRows) -> None:
    ours, theirs = (each.prototype.select(*each.keys).schema for each in (left, right))
    if len(ours) != len(theirs):
        raise PrototypeError(f"the left side has {len(ours)} keys and the right side {len(theirs)}")
    for one, other in zip(ours, theirs, strict=True):
        types = one.dataType.simpleString(), other.dataType.simpleString()
        if types[0] != types[1]:
            raise PrototypeError(
                f"the key {one.name} of the left side is {types[0]}, and {other.name} of the right side is {types[1]}:"
                f" cast one of them, as in key_by(F.col({other.name!r}).cast({types[0]!r}))"
            )


def _cut(windows: EventTimeWindows) -> str:
    return f"size={windows.size_ms}, slide={windows.slide_ms}, offset={windows.offset_ms}"


_MARK = "__side_"


def _key(side: Side, place: int) -> str:
    return f"{_MARK}{side}_key_{place}"


def _time(side: Side) -> str:
    return f"{_MARK}{side}_time"


_ROWS_OF_ONE_CORE = 2_000_000
"""Maximum number of rows that one core joins faster than several cores after a shuffle."""


_ROWS_SENT = 500_000
"""Maximum number of rows that are broadcast to a larger side, instead of shuffling both sides."""


class SideLayout(StateLayout):
    def __init__(self, side: JoinSide, retained_ms: int) -> None:
        super().__init__(side.rows)
        self._side = side
        self._retained_ms = retained_ms

    def times(self) -> Mapping[str, Column]:
        return self._side.times

    def between(self, state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
        if (time := self._side.time) is None:
            return state
        if from_ms is not None:
            state = state.where(time >= instant(from_ms, time))
        return state if until_ms is None else state.where(time < instant(until_ms, time))

    def later(self, state: DataFrame, closed_to_ms: int | None) -> DataFrame:
        return state if closed_to_ms is None else self.between(state, closed_to_ms - self._retained_ms, None)


class _SparkJoining:
    def __init__(self, context: OperatorContext, code: JoinCode) -> None:
        self.context = context
        self._code = code
        self._backends: dict[Side, SparkStateBackend] = {}

    def backend(self, side: Side, segments: IntervalSegments[DataFrame]) -> SparkStateBackend:
        layout = SideLayout(self._code.sides[side], segments.retained_ms)
        backend = SparkStateBackend(layout, self.context.storage, side.value)
        self._backends[side] = backend
        return backend

    def arrived(self, side: Side, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Store a batch unchanged. Runs a Spark job only if rows may be late."""
        code, backend, batch, (rows,) = self._code.sides[side], self._backends[side], element.batch, element.rows
        assert batch is not None, "the rows of a join must come from an input gate"
        first, last = batch.event_time_min, batch.event_time_max
        assert first is not None, f"the rows {batch.batch_id} have no event times"
        assert last is not None, f"the rows {batch.batch_id} have no event times"
        if closed_to_ms is None or first >= closed_to_ms:
            return Arrived(segment=backend.adopt(batch, rows, first, last))
        time = code.time
        assert time is not None, "the side has no event time, so no row can be late"
        late = time < instant(closed_to_ms, time)
        observation, observed = counted(rows, {"late": code.count_late(late)})
        segment = backend.keep(observed.where(~late))
        late_rows = int(numbers_of(observation).get("late") or 0)
        if code.side_outputs_late_data:
            return Arrived(segment=segment, late=(rows.where(late),) if late_rows else None)
        return Arrived(segment=segment, late_rows=late_rows)

    def gathered(
        self, one: tuple[Side, DataFrame, int], other: tuple[Side, DataFrame, int]
    ) -> tuple[DataFrame, DataFrame]:
        """Return the rows of both sides, equally partitioned by key; few rows get one partition, without a shuffle."""
        (side, rows, number), (other_side, other_rows, other_number) = one, other
        if number + other_number <= _ROWS_OF_ONE_CORE:
            return rows.coalesce(1), other_rows.coalesce(1)
        partitions = self.context.scope.session.sparkContext.defaultParallelism
        sides = self._code.sides
        return (
            rows.repartition(partitions, *sides[side].rows.keys),
            other_rows.repartition(partitions, *sides[other_side].rows.keys),
        )

    def read(self, side: Side, readings: Sequence[Reading[DataFrame]]) -> tuple[Side, DataFrame, int]:
        """Return a side's rows in some segments, and an upper bound for their count."""
        return side, self._backends[side].bounded(readings), sum(each.segment.rows for each in readings)


class SparkPairs(_SparkJoining):
    meets_at_once = True

    def __init__(self, context: OperatorContext, code: PairsCode) -> None:
        super().__init__(context, code)
        self._pairs = code

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        new_rows, others = self.gathered((side, segment.frame, segment.rows), self.read(side.other, met))
        sides = {side: new_rows.hint("shuffle_hash"), side.other: others}
        with self.context.naming_failures():
            return (self._pairs.results(sides[Side.LEFT], sides[Side.RIGHT], "inner"),)

    def closed(self, closings: Sequence[Closing[DataFrame]]) -> Slices:
        with self.context.naming_failures():
            return (together([self._unmatched(closing) for closing in closings]),)

    def _unmatched(self, closing: Closing[DataFrame]) -> DataFrame:
        rows = self.read(closing.side, closing.readings)
        if not closing.met:
            return self._pairs.unmatched(closing.side, rows[1], None)
        alone, met = self.gathered(rows, self.read(closing.side.other, closing.met))
        return self._pairs.unmatched(closing.side, alone, met.hint("shuffle_hash"))


class SparkRegularPairs(SparkPairs):
    """Emits pairs of matching rows, whatever their arrival times. State may be far larger than a batch."""

    def __init__(self, context: OperatorContext, code: PairsCode) -> None:
        super().__init__(context, code)
        self._ranges = {side: KeyRanges(code.sides[side].rows.keys[0]) for side in Side}

    def arrived(self, side: Side, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Store a batch unchanged. No row can be late."""
        batch, (rows,) = element.batch, element.rows
        assert batch is not None, "the rows of a join must come from an input gate"
        arrival_ms = latest(closed_to_ms, element.processing_time_ms) or 0
        came = self._code.sides[side].with_arrival(rows, arrival_ms)
        return Arrived(segment=self._backends[side].adopt(batch, came, arrival_ms, arrival_ms))

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        """Join a batch with rows of the other side, with a hash table of the smaller side.

        If the other side is large, only segments whose key range overlaps the batch's are read. If these still have
        many rows, they are not shuffled: the hash table is broadcast.
        """
        other_rows = sum(each.segment.rows for each in met)
        if segment.rows <= _ROWS_SENT < other_rows:
            with self.context.naming_failures():
                met = self._ranges[side.other].within(met, lambda: self._ranges[side].of_rows(segment.frame))
        new_rows = side, self._ranges[side].watched(segment.frame), segment.rows
        others = self.read(side.other, met)
        fewer, more = sorted((new_rows, others), key=lambda rows: rows[2])
        if more[2] <= _ROWS_OF_ONE_CORE or fewer[2] > _ROWS_SENT:
            small, large = self.gathered(fewer, more)
            hint = "shuffle_hash"
        else:
            cores = self.context.scope.session.sparkContext.defaultParallelism
            small, large, hint = fewer[1], more[1].coalesce(cores), "broadcast"
        sides = {fewer[0]: small.hint(hint), more[0]: large}
        with self.context.naming_failures():
            return (self._pairs.results(sides[Side.LEFT], sides[Side.RIGHT], "inner"),)


class SparkGroups(_SparkJoining):
    """Passes all rows of a key and window to a function at the end of the window."""

    meets_at_once = False

    def __init__(self, context: OperatorContext, code: CoGroupCode) -> None:
        super().__init__(context, code)
        self._groups = code

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        raise AssertionError("a batch is not a group")

    def closed(self, closings: Sequence[Closing[DataFrame]]) -> Slices:
        rows = {closing.side: self.read(closing.side, closing.readings) for closing in closings}
        for side in Side:
            if side not in rows:
                _, others, _ = rows[side.other]
                rows[side] = side, self._groups.sides[side].no_rows(others), 0
        left, right = self.gathered(rows[Side.LEFT], rows[Side.RIGHT])
        with self.context.naming_failures():
            return (self._groups.grouped(left, right),)


_LEAST, _GREATEST = "least_key", "greatest_key"

_ORDERED = frozenset({"tinyint", "smallint", "int", "bigint", "date", "string"})
"""Types that Python orders like Spark: without NaN, collations and time zones."""


class KeyRanges:
    """The key ranges of segments, observed without additional jobs when the segments are first joined."""

    def __init__(self, key: Column) -> None:
        self._key = key
        self._is_ordered: bool | None = None
        self._extremes = F.min(key).alias(_LEAST), F.max(key).alias(_GREATEST)
        self._observed: WeakKeyDictionary[DataFrame, Observation] = WeakKeyDictionary()

    def watched(self, frame: DataFrame) -> DataFrame:
        """Observe the rows of a segment. Their key range is known once an action has read them."""
        if self._is_ordered is None:
            self._is_ordered = frame.select(self._key).dtypes[0][1] in _ORDERED
        if not self._is_ordered:
            return frame
        observation = Observation()
        self._observed[frame] = observation
        return frame.observe(observation, *self._extremes)

    def of_rows(self, rows: DataFrame) -> tuple[Any, Any]:
        (extremes,) = rows.select(*self._extremes).collect()
        return extremes[_LEAST], extremes[_GREATEST]

    def within(
        self, readings: Sequence[Reading[DataFrame]], few: Callable[[], tuple[Any, Any]]
    ) -> Sequence[Reading[DataFrame]]:
        """Return the segments that may have keys within the bounds that `few` returns, or else the smallest segment."""
        if not self._observed:
            return readings
        bounds = few()
        overlapping = [reading for reading in readings if self._may_have(reading.segment.frame, bounds)]
        return overlapping or [min(readings, key=lambda reading: reading.segment.rows)]

    def _may_have(self, frame: DataFrame, bounds: tuple[Any, Any]) -> bool:
        observation = self._observed.get(frame)
        if observation is None or not is_complete(observation):
            return True
        extremes, (least, greatest) = numbers_of(observation), bounds
        first, last = extremes.get(_LEAST), extremes.get(_GREATEST)
        if first is None or last is None or least is None:
            return True
        return bool(first <= greatest and least <= last)
