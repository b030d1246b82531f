"""The code of interval joins, made of column expressions over the two sides.

The columns of the sides are `left.name` and `right.name`, or just `name` where only one side has it: it is Spark that
resolves them, over DataFrames with these aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.interval_join import Side
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide
from flykka.spark_bridge.operators.spark_interval_join import interval_join_operator
from flykka.spark_bridge.program.event_time import MICROS_PER_MS
from flykka.spark_bridge.program.expressions import columns_read_of_sides
from flykka.spark_bridge.program.prototype import PrototypeError, transformed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.rows.materialise import Slices

_KINDS: Mapping[frozenset[Side], str] = {
    frozenset(): "inner",
    frozenset([Side.LEFT]): "left",
    frozenset([Side.RIGHT]): "right",
    frozenset(Side): "full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinCode(OperatorCode):
    """Joins rows with equal keys whose times are in an interval, and for which `condition` is true, where there is one.

    `columns` are the results. With a `time_column` they have the later one of the two event times under that name. The
    first `left_gates` inputs are of the left side. Rows of `outer` sides that meet none have results too.
    """

    kind = OperatorKind.JOIN
    is_head = True
    is_computed = True

    left: JoinSide
    right: JoinSide
    interval: Interval
    columns: tuple[Column | str, ...]
    condition: Column | str | None = None
    time_column: str | None = None
    outer: frozenset[Side] = frozenset()
    left_gates: int = 1

    @property
    def sides(self) -> Mapping[Side, JoinSide]:
        """Both sides."""
        return {Side.LEFT: self.left, Side.RIGHT: self.right}

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """Late rows of the two sides."""
        return tuple(side.late_data for side in Side)

    @property
    def fingerprint(self) -> str:
        """The kind, the interval, and the columns that are kept of both sides."""
        bounds = f"{self.interval.lower_ms}, {self.interval.upper_ms}"
        kept = "; ".join(f"{side} {of.rows.key_columns_ddl}: {of.rows.structure}" for side, of in self.sides.items())
        return f"interval_join({_KINDS[self.outer]}, {bounds}, {kept})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        """The operator of one attempt."""
        return interval_join_operator(context, self)

    def results(self, left: DataFrame, right: DataFrame, how: str) -> DataFrame:
        """Join rows of both sides."""
        met = self._marked(Side.LEFT, left).join(self._marked(Side.RIGHT, right), self._meets(), how)
        return met.select(*self.columns, *self._time())

    def unmatched(self, side: Side, rows: DataFrame, others: DataFrame | None) -> DataFrame:
        """The results of rows of a side that meet none of the others, which are all that they may have met."""
        alone, no_others = self._marked(side, rows), self.sides[side.other].no_rows(rows)
        if others is not None:
            alone = alone.join(self._marked(side.other, others), self._meets(), "left_anti")
        marked = {side: alone, side.other: self._marked(side.other, no_others)}
        joined = marked[Side.LEFT].join(marked[Side.RIGHT], self._meets(), _KINDS[frozenset([side])])
        return joined.select(*self.columns, *self._time())

    def joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return what all rows of both sides make, as if these were all there are."""
        return self.results(left, right, _KINDS[self.outer])

    def previewed(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """The results of some rows, of which those without an event time are left out."""
        return self.joined(self.left.kept(left), self.right.kept(right))

    def _marked(self, side: Side, rows: DataFrame) -> DataFrame:
        """Rows under the name of their side, with keys and time as columns beside."""
        of, keys = self.sides[side], self.sides[side].rows.keys
        marks = (key.alias(_key(side, place)) for place, key in enumerate(keys))
        return rows.alias(side.value).select("*", *marks, of.time.alias(_time(side)))

    def _meets(self) -> Column:
        keys = [F.col(_key(Side.LEFT, n)) == F.col(_key(Side.RIGHT, n)) for n in range(len(self.left.rows.keys))]
        left, right, interval = F.col(_time(Side.LEFT)), F.col(_time(Side.RIGHT)), self.interval
        lower, upper = (left + F.lit(each * MICROS_PER_MS) for each in (interval.lower_ms, interval.upper_ms))
        from_lower = right >= lower if interval.is_lower_inclusive else right > lower
        to_upper = right <= upper if interval.is_upper_inclusive else right < upper
        wanted = [] if self.condition is None else [self.condition]
        conditions = (F.expr(each) if isinstance(each, str) else each for each in wanted)
        return reduce(and_, [*keys, from_lower, to_upper, *conditions])

    def _time(self) -> tuple[Column, ...]:
        if self.time_column is None:
            return ()
        later = F.greatest(*(F.col(_time(side)) for side in Side))
        return (F.timestamp_micros(later).alias(self.time_column),)


def interval_join(
    left: JoinedRows, right: JoinedRows, draft: Callable[[JoinSide, JoinSide], IntervalJoinCode]
) -> tuple[DataFrame, IntervalJoinCode]:
    """The prototype of the results, and the code that `draft` makes of the sides, with the columns that are needed.

    Raises:
        PrototypeError: the keys of the two sides differ in number or type, a column does not fit or may be of either
            side, or results are computed of several rows.
    """
    _check_keys(left, right)
    whole = draft(JoinSide.of(left, left.prototype.columns), JoinSide.of(right, right.prototype.columns))
    prototype = transformed(left.prototype, lambda rows: whole.joined(rows, right.prototype))
    read = columns_read_of_sides(prototype)
    if read is None:
        raise PrototypeError("the columns of a join are computed of one row of each side: compute others behind it")
    marks = [name for name in prototype.columns if name.startswith(_MARK)]
    if marks:
        raise PrototypeError("'*' would be of both sides together: name them as 'left.*' and 'right.*'")
    of_left, of_right = read
    return prototype, draft(JoinSide.of(left, of_left), JoinSide.of(right, of_right))


def _check_keys(left: JoinedRows, right: JoinedRows) -> None:
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


_MARK = "__side_"


def _key(side: Side, place: int) -> str:
    return f"{_MARK}{side}_key_{place}"


def _time(side: Side) -> str:
    return f"{_MARK}{side}_time"
