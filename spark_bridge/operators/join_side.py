"""A side of a join of two streams: which of its columns are kept, and the part that runs before the exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.code import KeyByCode, LocalCode
from flykka.spark_bridge.operators.operator import MapOperator, Operator
from flykka.spark_bridge.operators.spark_windows import by_window, in_windows, pane_of, since_last_start
from flykka.spark_bridge.program.aggregates import TIME, RowState, row_state
from flykka.spark_bridge.program.event_time import event_time_micros
from flykka.spark_bridge.program.expressions import columns_read
from flykka.spark_bridge.rows.materialise import Slices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext

_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRows:
    """The rows that a side has, before it is known what the join needs of them. `prototype` has their columns.

    Without an event time they are kept for ever, or, where it `has_arrivals`, by the time at which they came.
    """

    prototype: DataFrame
    keys: tuple[Column | str, ...]
    event_time: EventTime | None
    side_outputs_late_data: bool = False
    windows: EventTimeWindows | None = None
    has_arrivals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """The rows of a side, cut down to the columns that are needed, whose types are in `schema`.

    Rows that come too late go to a side output where it `side_outputs_late_data`; then all columns are needed. With
    `windows` a row is kept once for each window that it is in, with the start of the window as column `TIME`; where it
    `has_arrivals`, that column is the time at which the row came.
    """

    rows: RowState
    schema: StructType
    event_time: EventTime | None
    side_outputs_late_data: bool = False
    windows: EventTimeWindows | None = None
    has_arrivals: bool = False

    @property
    def time(self) -> Column | None:
        """The time by which a row is kept in microseconds: its event time, or that of its window, or when it came.

        Of a window that is the last watermark at which its rows are not late. None where rows are kept for ever.
        """
        if self.windows is not None:
            return F.col(TIME) + F.lit((self.windows.size_ms - 2) * MICROS_PER_MS)
        if self.event_time is not None:
            return event_time_micros(self.event_time)
        return F.col(TIME) if self.has_arrivals else None

    @property
    def times(self) -> Mapping[str, Column]:
        """The first and the last time by which rows are kept, in microseconds; none where they are kept for ever."""
        time = self.time
        return {} if time is None else {"first_micros": F.min(time), "last_micros": F.max(time)}

    @property
    def key_by(self) -> KeyByCode:
        return KeyByCode(columns=self.rows.keys, of_state=True)

    @classmethod
    def of(cls, joined: JoinedRows, read: Sequence[str]) -> JoinSide:
        rows = joined.prototype
        times = () if joined.event_time is None else (joined.event_time.column,)
        needed = {*read, *columns_read(rows.select(*joined.keys)), *times}
        names = [name for name in rows.columns if name in needed or joined.side_outputs_late_data]
        return cls(
            rows=row_state(rows, joined.keys, names),
            schema=StructType([rows.schema[name] for name in names]),
            event_time=joined.event_time,
            side_outputs_late_data=joined.side_outputs_late_data,
            windows=joined.windows,
            has_arrivals=joined.has_arrivals,
        )

    def no_rows(self, like: DataFrame) -> DataFrame:
        nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in self.schema]
        starts = [] if self.windows is None else [F.lit(None).cast("bigint").alias(TIME)]
        return like.limit(0).select(*nulls, *starts)

    def came(self, rows: DataFrame, arrival_ms: int) -> DataFrame:
        """The rows with the time at which they came, where that is kept."""
        return rows.withColumn(TIME, F.lit(arrival_ms * MICROS_PER_MS)) if self.has_arrivals else rows

    def kept(self, rows: DataFrame) -> DataFrame:
        """The rows that can meet any, with the columns that are needed.

        They have an event time, where rows are kept by that, and else no key that is null.
        """
        needed = [F.col(quoted(name)) for name in self.rows.needed]
        if self.event_time is None:
            return rows.where(reduce(and_, (key.isNotNull() for key in self.rows.keys))).select(*needed)
        if self.windows is None:
            return rows.where(event_time_micros(self.event_time).isNotNull()).select(*needed)
        pane = pane_of(self.windows, event_time_micros(self.event_time))
        rows = in_windows(self.windows, rows, self.event_time).select(*needed, pane.alias(TIME))
        return by_window(self.windows, rows, None, _LONG_MAX)

    def lost(self, late: Column) -> Column:
        """The number of rows that are late: those for which all of their windows are."""
        if self.windows is None or self.event_time is None:
            return F.count_if(late)
        time = event_time_micros(self.event_time)
        return F.count_if(late & (F.col(TIME) == time - since_last_start(self.windows, time)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSideCode(LocalCode):
    """Leaves out before the exchange what the join does not need."""

    kind = OperatorKind.LOCAL_JOIN

    side: JoinSide

    @property
    def fingerprint(self) -> str:
        return f"join_side({self.side.rows.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return MapOperator(context.operator_id, self.side.kept)

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        return {} if self.side.event_time is None else self.side.times
