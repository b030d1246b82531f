"""A side of a stream join: its columns in state, and the part of the join that runs before the exchange."""

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
    """The rows of a side with all columns of `prototype`, as long as the columns that the join needs are unknown.

    Without event time, rows are stored forever or, with `has_arrivals`, by their arrival time.
    """

    prototype: DataFrame
    keys: tuple[Column | str, ...]
    event_time: EventTime | None
    side_outputs_late_data: bool = False
    windows: EventTimeWindows | None = None
    has_arrivals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """The rows of a side, reduced to the needed columns, whose types are in `schema`.

    With `side_outputs_late_data`, late rows go to a side output, and all columns are needed. With `windows`, a row is
    stored once for each of its windows, and the column `TIME` contains the start of the window. With `has_arrivals`,
    that column contains the arrival time.
    """

    rows: RowState
    schema: StructType
    event_time: EventTime | None
    side_outputs_late_data: bool = False
    windows: EventTimeWindows | None = None
    has_arrivals: bool = False

    @property
    def time(self) -> Column | None:
        """The time of a row in state, in microseconds: its event time, the time of its window, or its arrival time.

        The time of a window is the last watermark at which its rows are not late. None if rows are stored forever.
        """
        if self.windows is not None:
            return F.col(TIME) + F.lit((self.windows.size_ms - 2) * MICROS_PER_MS)
        if self.event_time is not None:
            return event_time_micros(self.event_time)
        return F.col(TIME) if self.has_arrivals else None

    @property
    def times(self) -> Mapping[str, Column]:
        """The aggregates for the first and last `time`, in microseconds; empty if rows are stored forever."""
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

    def with_arrival(self, rows: DataFrame, arrival_ms: int) -> DataFrame:
        return rows.withColumn(TIME, F.lit(arrival_ms * MICROS_PER_MS)) if self.has_arrivals else rows

    def retained(self, rows: DataFrame) -> DataFrame:
        """Return the needed columns of the rows that can match.

        With event time, these are the rows whose event time is not null, otherwise the rows whose keys are not null.
        """
        needed = [F.col(quoted(name)) for name in self.rows.needed]
        if self.event_time is None:
            return rows.where(reduce(and_, (key.isNotNull() for key in self.rows.keys))).select(*needed)
        if self.windows is None:
            return rows.where(event_time_micros(self.event_time).isNotNull()).select(*needed)
        pane = pane_of(self.windows, event_time_micros(self.event_time))
        rows = in_windows(self.windows, rows, self.event_time).select(*needed, pane.alias(TIME))
        return by_window(self.windows, rows, None, _LONG_MAX)

    def count_late(self, late: Column) -> Column:
        """Count the late rows. A row is late if all of its windows have ended."""
        if self.windows is None or self.event_time is None:
            return F.count_if(late)
        time = event_time_micros(self.event_time)
        return F.count_if(late & (F.col(TIME) == time - since_last_start(self.windows, time)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSideCode(LocalCode):
    kind = OperatorKind.LOCAL_JOIN

    side: JoinSide

    @property
    def is_stored_by_reader(self) -> bool:
        return True

    @property
    def fingerprint(self) -> str:
        return f"join_side({self.side.rows.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return MapOperator(context.operator_id, self.side.retained)

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        return {} if self.side.event_time is None else self.side.times
