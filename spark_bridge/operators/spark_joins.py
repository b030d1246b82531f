"""Joins by time with Spark: rows are kept as they come over the exchange, and joined by Spark's hash joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flykka.actors.machines.state.segments import latest
from flykka.spark_bridge.operators.join import Closing, JoinOperator, RegularJoinOperator, Side
from flykka.spark_bridge.operators.key_ranges import KeyRanges
from flykka.spark_bridge.operators.window import Arrived
from flykka.spark_bridge.program.event_time import instant
from flykka.spark_bridge.rows.materialise import counted, numbers_of, together
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend, StateLayout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.actors.machines.joins.interval_segments import IntervalSegments
    from flykka.actors.machines.state.segments import Reading, Segment
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.join_code import CoGroupCode, JoinCode, PairsCode
    from flykka.spark_bridge.operators.join_side import JoinSide
    from flykka.spark_bridge.operators.operator import Element
    from flykka.spark_bridge.rows.materialise import Slices

_ROWS_OF_ONE_CORE = 2_000_000
"""Up to so many rows are joined sooner by one core than shuffled to several."""


_ROWS_SENT = 500_000
"""Up to so many rows are sooner sent to where more of them lie than both shuffled."""


class SideLayout(StateLayout):
    """The columns of a side: those of its rows."""

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
        """The rows that a join still needs which is through to `closed_to_ms`."""
        return state if closed_to_ms is None else self.between(state, closed_to_ms - self._retained_ms, None)


class _SparkJoining:
    """The part of `Joining` that is alike in all joins of an attempt."""

    def __init__(self, context: OperatorContext, code: JoinCode) -> None:
        self.context = context
        self._code = code
        self._backends: dict[Side, SparkStateBackend] = {}

    def backend(self, side: Side, segments: IntervalSegments[DataFrame]) -> SparkStateBackend:
        layout = SideLayout(self._code.sides[side], segments.retained_ms)
        made = SparkStateBackend(layout, self.context.storage, side.value)
        self._backends[side] = made
        return made

    def arrived(self, side: Side, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Keep a batch as it is. Only where rows may be late it costs a job."""
        code, backend, batch, (rows,) = self._code.sides[side], self._backends[side], element.batch, element.rows
        assert batch is not None, "joins read the input gates"
        first, last = batch.event_time_min, batch.event_time_max
        assert first is not None, f"the rows {batch.batch_id} do not say of which time they are"
        assert last is not None, f"the rows {batch.batch_id} do not say of which time they are"
        if closed_to_ms is None or first >= closed_to_ms:
            return Arrived(segment=backend.adopt(batch, rows, first, last))
        time = code.time
        assert time is not None, "rows that have a time are late"
        late = time < instant(closed_to_ms, time)
        observation, observed = counted(rows, {"late": code.lost(late)})
        segment = backend.keep(observed.where(~late))
        late_rows = int(numbers_of(observation).get("late") or 0)
        if code.side_outputs_late_data:
            return Arrived(segment=segment, late=(rows.where(late),) if late_rows else None)
        return Arrived(segment=segment, late_rows=late_rows)

    def gathered(
        self, one: tuple[Side, DataFrame, int], other: tuple[Side, DataFrame, int]
    ) -> tuple[DataFrame, DataFrame]:
        """The rows of both sides in as many partitions, by key; where they are few in one, which is no shuffle."""
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
        """The rows of segments of a side, and at most how many they are."""
        return side, self._backends[side].bounded(readings), sum(each.segment.rows for each in readings)


class SparkPairs(_SparkJoining):
    """Makes rows of two that meet."""

    meets_at_once = True

    def __init__(self, context: OperatorContext, code: PairsCode) -> None:
        super().__init__(context, code)
        self._pairs = code

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        """Join a batch with rows of the other side."""
        news, kept = self.gathered((side, segment.frame, segment.rows), self.read(side.other, met))
        sides = {side: news.hint("shuffle_hash"), side.other: kept}
        with self.context.naming_failures():
            return (self._pairs.results(sides[Side.LEFT], sides[Side.RIGHT], "inner"),)

    def closed(self, closings: Sequence[Closing[DataFrame]]) -> Slices:
        """Anti joins, whose rows have nulls for the other side."""
        with self.context.naming_failures():
            return (together([self._unmatched(closing) for closing in closings]),)

    def _unmatched(self, closing: Closing[DataFrame]) -> DataFrame:
        rows = self.read(closing.side, closing.readings)
        if not closing.met:
            return self._pairs.unmatched(closing.side, rows[1], None)
        alone, met = self.gathered(rows, self.read(closing.side.other, closing.met))
        return self._pairs.unmatched(closing.side, alone, met.hint("shuffle_hash"))


class SparkRegularPairs(SparkPairs):
    """Makes rows of two that meet, whenever they come: what is kept of a side may be far more than a batch."""

    def __init__(self, context: OperatorContext, code: PairsCode) -> None:
        super().__init__(context, code)
        self._ranges = {side: KeyRanges(code.sides[side].rows.keys[0]) for side in Side}

    def arrived(self, side: Side, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        batch, (rows,) = element.batch, element.rows
        assert batch is not None, "joins read the input gates"
        arrival_ms = latest(closed_to_ms, element.processing_time_ms) or 0
        came = self._code.sides[side].came(rows, arrival_ms)
        return Arrived(segment=self._backends[side].adopt(batch, came, arrival_ms, arrival_ms))

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        """Join a batch with rows of the other side, by a table of the fewer ones.

        Of many others only those are looked at among whose keys some may be; where they still are many, they stay where
        they lie, and the table is sent there.
        """
        kept_rows = sum(each.segment.rows for each in met)
        if segment.rows <= _ROWS_SENT < kept_rows:
            with self.context.naming_failures():
                met = self._ranges[side.other].within(met, lambda: self._ranges[side].of_rows(segment.frame))
        news = side, self._ranges[side].watched(segment.frame), segment.rows
        kept = self.read(side.other, met)
        fewer, more = sorted((news, kept), key=lambda rows: rows[2])
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
    """Gives a function all rows of a key and window, when the window is over."""

    meets_at_once = False

    def __init__(self, context: OperatorContext, code: CoGroupCode) -> None:
        super().__init__(context, code)
        self._groups = code

    def joined(self, side: Side, segment: Segment[DataFrame], met: Sequence[Reading[DataFrame]]) -> Slices:
        """Rows meet when the window is over."""
        raise AssertionError("a batch is no group")

    def closed(self, closings: Sequence[Closing[DataFrame]]) -> Slices:
        rows = {closing.side: self.read(closing.side, closing.readings) for closing in closings}
        for side in Side:
            if side not in rows:
                _, others, _ = rows[side.other]
                rows[side] = side, self._groups.sides[side].no_rows(others), 0
        left, right = self.gathered(rows[Side.LEFT], rows[Side.RIGHT])
        with self.context.naming_failures():
            return (self._groups.grouped(left, right),)


def regular_join_operator(
    context: OperatorContext, code: JoinCode, joining: SparkRegularPairs
) -> RegularJoinOperator[Slices, DataFrame]:
    return RegularJoinOperator(
        context.operator_id, code.interval, joining, joining.backend, code.left_gates, code.outer
    )


def join_operator(
    context: OperatorContext, code: JoinCode, joining: SparkPairs | SparkGroups
) -> JoinOperator[Slices, DataFrame]:
    return JoinOperator(context.operator_id, code.interval, joining, joining.backend, code.left_gates, code.outer)
