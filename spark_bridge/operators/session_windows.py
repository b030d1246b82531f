"""The code of event-time session windows with mergeable partial aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField

from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.code import AggregateCode
from flykka.spark_bridge.operators.spark_keyed_batches import keyed_table_operator
from flykka.spark_bridge.program.aggregates import TIME, PartialAggregates
from flykka.spark_bridge.program.event_time import event_time_micros
from flykka.spark_bridge.program.stored_columns import ROWS
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.sessions import END, OPEN, START, FireSessions, MergeSessions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.materialise import Slices


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindowCode(AggregateCode):
    """Session windows of each key, which end `gap_ms` after their last row. The state of a key is its open sessions."""

    kind = OperatorKind.KEYED_PROCESS
    local_kind = OperatorKind.LOCAL_WINDOW_AGGREGATE
    may_come_unaggregated = True
    emits_with_batches = False

    plan: PartialAggregates
    event_time: EventTime
    gap_ms: int

    @property
    def fingerprint(self) -> str:
        return f"sessions(gap={self.gap_ms}, state={self.plan.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return keyed_table_operator(context, self)

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        return self.plan.key_fields

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        lists = (StructField(f"{OPEN}{each.name}", ArrayType(each.dataType)) for each in self._session_fields)
        return (*lists, StructField(NEXT_EVENT_TIMER, LongType()))

    @property
    def emitted(self) -> tuple[StructField, ...]:
        return (*self.plan.key_fields, *self._session_fields)

    @property
    def side(self) -> tuple[SideOutput, ...]:
        return ()

    @property
    def _session_fields(self) -> tuple[StructField, ...]:
        return (StructField(START, LongType()), StructField(END, LongType()), *self.plan.part_fields)

    def keyed(self, rows: DataFrame) -> DataFrame:
        return rows

    def function(self, watermark_ms: int) -> MergeSessions:
        return MergeSessions(
            functions=self.plan.merging,
            wrapping=self.plan.wrapping,
            rows_column=ROWS,
            watermark_ms=watermark_ms,
        )

    def firing(self, due_ms: int) -> FireSessions:
        return FireSessions(due_ms=due_ms)

    def clean_up(self, watermark_ms: int) -> None:
        """Return None: sessions are removed when they have ended."""

    def results(self, emitted: DataFrame) -> DataFrame:
        bounds = {WINDOW_START: F.timestamp_micros(START), WINDOW_END: F.timestamp_micros(END)}
        return self.plan.evaluated(emitted, **bounds)

    def local_state(self, rows: DataFrame) -> DataFrame:
        """Return partial sessions: rows of a key that are less than a gap apart are aggregated."""
        time = event_time_micros(self.event_time)
        stretch = time - F.pmod(time, self._gap_micros)
        bounds = F.min(time).alias(START), (F.max(time) + self._gap_micros).alias(END)
        return self.plan.local(rows.where(time.isNotNull()), stretch, *bounds).drop(TIME)

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        time = event_time_micros(self.event_time)
        bounds = time.alias(START), (time + self._gap_micros).alias(END)
        return self.plan.row_by_row(rows.where(time.isNotNull()), time, *bounds).drop(TIME)

    def state_times(self) -> Mapping[str, Column]:
        return {"first_micros": F.min(START), "last_micros": F.max(END) - self._gap_micros}

    def previewed(self, rows: DataFrame) -> DataFrame:
        session = F.session_window(F.timestamp_micros(START), f"{self.gap_ms} milliseconds").alias(TIME)
        bounds = (F.unix_micros(f"{TIME}.{bound}").alias(name) for bound, name in (("start", START), ("end", END)))
        merged = self.plan.merge(self.state_row_by_row(rows), session)
        return self.results(merged.select("*", *bounds))

    @property
    def _gap_micros(self) -> Column:
        return F.lit(self.gap_ms * MICROS_PER_MS)
