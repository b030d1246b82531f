"""The code of operators: live objects that stay in the driver.

A job graph names them by uid and fingerprint. A fingerprint is a short readable text of what must agree for stored
state to fit the code (the kind of operator, sizes, names and types) and of nothing that may differ between two runs of
one program. In each attempt the code makes an operator, which does the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import columns_of, described, quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorStateSchema, StateSchema
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.operators.checkpointed_transform import CheckpointedTransformOperator
from flykka.spark_bridge.operators.source import SourceOperator
from flykka.spark_bridge.operators.spark_keyed_batches import group_aggregate_operator
from flykka.spark_bridge.operators.spark_windows import all_fired, batch_times, local_state, window_operator
from flykka.spark_bridge.operators.stateless import LocalAggregateOperator, TransformOperator
from flykka.spark_bridge.operators.window import LATE_DATA
from flykka.spark_bridge.program.aggregates import TIME, RowsApplied
from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.aggregates import AggregatePlan, PartialAggregates
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.program.source import Source
    from flykka.spark_bridge.rows.materialise import Slices


class OperatorCode(ABC):
    """The code of one operator."""

    kind: ClassVar[OperatorKind]
    is_head: ClassVar[bool] = False
    """True if it must stand at the head of its chain."""
    is_computed: ClassVar[bool] = False
    """True if Spark computes expressions or functions of the user's for it."""
    aggregates_slices: ClassVar[bool] = False
    """True if it aggregates rows slice by slice."""

    @property
    def reads_side_output(self) -> str | None:
        """The side output of the operator before it that it reads; None reads the main output."""
        return None

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of keyed state, for readers of a checkpoint; None where there is none."""
        return None

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns by which a row that it emits takes the place of earlier ones; none where every row stays."""
        return ()

    @property
    def has_coordinator(self) -> bool:
        """True if its function brings an operator coordinator."""
        return False

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text of what stored state must fit."""

    @abstractmethod
    def operator(self, context: OperatorContext) -> Operator[Slices]:
        """The operator of one attempt."""

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        """The aggregates `first_micros` and `last_micros` over rows that it has made; `event_time` is the source's."""
        if event_time is None or not has_event_time(rows, event_time):
            return {}  # It was left out, or another column has its name.
        time = F.col(quoted(event_time))
        first, last = F.min(time).cast("timestamp"), F.max(time).cast("timestamp")
        return {"first_micros": F.unix_micros(first), "last_micros": F.unix_micros(last)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode(OperatorCode):
    """Reads splits. `watermark_delay_ms` is how far event time may be out of order; None: no watermarks.

    Where rows are to come in order, `watches_order`. Where some of them mark watermarks, they are those for which
    `punctuation` is true.
    """

    kind = OperatorKind.SOURCE
    is_head = True

    source: Source
    watermark_delay_ms: int | None = None
    watches_order: bool = False
    punctuation: Column | str | None = None

    @property
    def fingerprint(self) -> str:
        """The format: where the rows come from may change between two runs."""
        return f"source({self.source.format})"

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """The rows that the source puts aside."""
        return () if self.source.side_output is None else (self.source.side_output.tag,)

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return SourceOperator(context, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformCode(OperatorCode):
    """A function of batches without memory, but for the `operator_state` of a rich one."""

    kind = OperatorKind.STATELESS
    is_computed = True

    function: Callable[[DataFrame], DataFrame]
    operator_state: tuple[OperatorStateSchema, ...] = ()

    @property
    def state_schema(self) -> StateSchema | None:
        return StateSchema(operator_state=self.operator_state) if self.operator_state else None

    @property
    def fingerprint(self) -> str:
        """The operator state: without any, a function may take the place of another."""
        return f"transform({described(self.operator_state)})" if self.operator_state else "transform"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return (CheckpointedTransformOperator if self.operator_state else TransformOperator)(context, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyByCode:
    """The key expressions of a keyed edge. They are `of_state` where its rows were aggregated before the exchange."""

    columns: tuple[Column | str, ...]
    of_state: bool = False

    @property
    def fingerprint(self) -> str:
        """The number of keys; the operator behind the edge knows their types."""
        return f"key_by({len(self.columns)})"


class AggregateCode(OperatorCode):
    """Aggregates of keyed rows, of which a part may be computed before the exchange."""

    is_head = True
    is_computed = True
    local_kind: ClassVar[OperatorKind]
    may_come_unaggregated: ClassVar[bool] = False
    """True if state may come as rows that `state_row_by_row` makes, where that is quicker."""

    plan: AggregatePlan

    @abstractmethod
    def local_state(self, rows: DataFrame) -> DataFrame:
        """State made of rows."""

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        """State made of each row by itself."""
        raise AssertionError(f"{self.kind} keeps rows that were aggregated")

    @abstractmethod
    def state_times(self) -> Mapping[str, Column]:
        """The event times of a batch of state, as `batch_times`."""

    @abstractmethod
    def previewed(self, rows: DataFrame) -> DataFrame:
        """The results of some rows, as if these were all there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCode(AggregateCode):
    """Windows over the event time of rows.

    `side_outputs_late_data`: rows that come too late are handed to `SideOutputCode`, not dropped. They must then come
    as they are, with no local part before the exchange. For `allowed_lateness_ms` behind its end a window fires again
    where rows come for it.
    """

    kind = OperatorKind.WINDOW_AGGREGATE
    local_kind = OperatorKind.LOCAL_WINDOW_AGGREGATE
    keys: tuple[Column | str, ...]
    windows: EventTimeWindows
    event_time: EventTime
    plan: AggregatePlan
    side_outputs_late_data: bool = False
    allowed_lateness_ms: int = 0

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return (LATE_DATA,)

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """Window and keys, where windows may fire again with aggregates. A function makes any number of rows."""
        if not self.allowed_lateness_ms or isinstance(self.plan, RowsApplied):
            return ()
        return (WINDOW_START, WINDOW_END, *columns_of(self.plan.state_schema.keys))

    @property
    def fingerprint(self) -> str:
        windows = self.windows
        cut = f"size={windows.size_ms}, slide={windows.slide_ms}, offset={windows.offset_ms}"
        return f"window({cut}, state={self.plan.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return window_operator(context, self)

    @property
    def state_schema(self) -> StateSchema:
        windows = self.windows
        cut = f"size={windows.size_ms}ms, slide={windows.slide_ms}ms, offset={windows.offset_ms}ms"
        return replace(self.plan.state_schema, windows=cut)

    def local_state(self, rows: DataFrame) -> DataFrame:
        return local_state(self, rows)

    def state_times(self) -> Mapping[str, Column]:
        """From the first to the last millisecond of panes."""
        return batch_times(self.windows)

    def previewed(self, rows: DataFrame) -> DataFrame:
        return all_fired(self, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAggregateCode(AggregateCode):
    """Running aggregates of each key, without windows: each batch emits those of the keys that it has."""

    kind = OperatorKind.GROUP_AGGREGATE
    local_kind = OperatorKind.LOCAL_GROUP_AGGREGATE
    may_come_unaggregated = True

    plan: PartialAggregates

    @property
    def fingerprint(self) -> str:
        return f"group_aggregate(state={self.plan.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return group_aggregate_operator(context, self)

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        return self.plan.key_fields

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        return tuple(columns_of(self.plan.state_schema.keys))

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        return self.plan.part_fields

    @property
    def emitted(self) -> tuple[StructField, ...]:
        return (*self.plan.key_fields, *self.plan.part_fields)

    @property
    def side(self) -> tuple[SideOutput, ...]:
        return ()

    def keyed(self, rows: DataFrame) -> DataFrame:
        """Rows of state, as they come over the exchange: all of one time."""
        return rows.drop(TIME)

    def results(self, emitted: DataFrame) -> DataFrame:
        return self.plan.evaluated(emitted)

    @property
    def state_schema(self) -> StateSchema:
        return self.plan.state_schema

    def local_state(self, rows: DataFrame) -> DataFrame:
        return self.plan.local(rows, F.lit(0).cast("bigint"))

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        return self.plan.row_by_row(rows, F.lit(0).cast("bigint"))

    def state_times(self) -> Mapping[str, Column]:
        return {}

    def previewed(self, rows: DataFrame) -> DataFrame:
        return self.plan.results_of(self.local_state(rows))


class LocalCode(OperatorCode):
    """The part of an operator that runs before the exchange."""

    @property
    def local_kind(self) -> OperatorKind:
        """The kind by which the runtime knows such parts: their own, unless they stand for several."""
        return self.kind

    def name_of(self, operator: str) -> str:
        return f"local {operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAggregateCode(LocalCode):
    """The part of aggregates that runs before the exchange: it makes state of rows."""

    kind = OperatorKind.STATELESS
    is_computed = True
    aggregates_slices = True

    of: AggregateCode

    @property
    def local_kind(self) -> OperatorKind:
        return self.of.local_kind

    @property
    def fingerprint(self) -> str:
        return f"local_{self.of.fingerprint}"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return LocalAggregateOperator(context, self)

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        return self.of.state_times()
