"""Windows with Spark: arithmetic on integer columns. `F.window` makes structs of timestamps, which cost a third more.

What windows and panes are is said in `event_time_windows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import columns_of, quoted
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.operators.code import AggregateCode
from flykka.spark_bridge.operators.window import LATE_DATA, Arrived, WindowAggregateOperator
from flykka.spark_bridge.program.aggregates import NEWS, TIME, RowStateFunction
from flykka.spark_bridge.program.event_time import event_time_micros, instant
from flykka.spark_bridge.rows.materialise import counted, numbers_of, together
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend, StateLayout, gathered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.actors.machines.state.segments import Reading
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Element, Operator
    from flykka.spark_bridge.program.aggregates import AggregatePlan
    from flykka.spark_bridge.rows.materialise import Slices

_LONG_MAX = 2**63 - 1


class WindowLayout(StateLayout):
    """The columns of the state of windows: rows by pane."""

    def __init__(self, code: WindowCode) -> None:
        super().__init__(code.plan)
        self._windows = code.windows

    def times(self) -> Mapping[str, Column]:
        return {"first_micros": F.min(TIME), "last_micros": F.max(TIME)}

    def between(self, state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
        """The state of panes that start at `from_ms` or later and before `until_ms`; None is no bound."""
        if from_ms is not None:
            state = state.where(F.col(TIME) >= instant(from_ms, F.col(TIME)))
        if until_ms is not None:
            state = state.where(_before(F.col(TIME), until_ms))
        return state

    def later(self, state: DataFrame, closed_to_ms: int | None) -> DataFrame:
        """The state of panes that a window needs which starts after `closed_to_ms`."""
        return state if closed_to_ms is None else self.between(state, self._windows.next_start(closed_to_ms), None)


class SparkPanes:
    """Implements `Panes` for one attempt."""

    def __init__(self, code: WindowCode, backend: SparkStateBackend) -> None:
        self._code = code
        self._backend = backend

    def arrived(self, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Make state of a batch. Only where rows may be late, or are no state yet, it costs a job."""
        code, batch, (rows,) = self._code, element.batch, element.rows
        assert batch is not None, "windows read the input gates"
        if TIME not in rows.columns:
            return self._of_rows(rows, closed_to_ms)
        # What was aggregated before the exchange is state as it is, unless some of it is late.
        first, last = batch.event_time_min, batch.event_time_max
        assert first is not None, f"the state {batch.batch_id} does not say of which panes it is"
        assert last is not None, f"the state {batch.batch_id} does not say of which panes it is"
        if closed_to_ms is None or first >= code.windows.next_start(closed_to_ms):
            return Arrived(segment=self._backend.adopt(batch, rows, first, last - code.windows.slide_ms + 1))
        late = _before(F.col(TIME), code.windows.next_start(closed_to_ms))
        observation, observed = counted(rows, {"late": code.plan.input_rows(late)})
        segment = self._backend.keep(observed.where(~late))
        return Arrived(segment=segment, late_rows=int(numbers_of(observation).get("late") or 0))

    def _of_rows(self, rows: DataFrame, closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Rows that come as they are become state here."""
        code = self._code
        rows = in_windows(code.windows, rows, code.event_time)
        if closed_to_ms is None:
            return Arrived(segment=self._backend.keep(code.local_state(rows)))
        late = _before(event_time_micros(code.event_time), code.windows.next_start(closed_to_ms))
        observation, observed = counted(rows, {"late": F.count_if(late)})
        segment = self._backend.keep(code.local_state(observed.where(~late)))
        late_rows = int(numbers_of(observation).get("late") or 0)
        if code.side_outputs_late_data:
            return Arrived(segment=segment, late=(rows.where(late),) if late_rows else None)
        return Arrived(segment=segment, late_rows=late_rows)

    def fired(self, readings: Sequence[Reading[DataFrame]], to_ms: int) -> Slices:
        """The results of the windows that start at `to_ms` or before, of keys that have a row not emitted yet."""
        alike: dict[tuple[int | None, int | None], list[Reading[DataFrame]]] = {}
        for reading in readings:
            alike.setdefault((reading.closed_to_ms, reading.emitted_to_ms), []).append(reading)
        are_all_news = all(emitted_to is None for _, emitted_to in alike)
        rows: list[DataFrame] = []
        for (closed_to, emitted_to), some in alike.items():
            state = by_window(self._code.windows, self._backend.bounded(some), closed_to, to_ms)
            if not are_all_news:
                is_news = F.lit(True) if emitted_to is None else F.col(TIME) > instant(emitted_to, F.col(TIME))
                state = state.withColumn(NEWS, is_news)
            rows.append(state)
        return (self._code.fired(gathered(together(rows), readings), are_all_news=are_all_news),)


class AppliedPanes(SparkPanes):
    """Panes whose windows are given to a function of the user's."""

    def __init__(self, code: WindowCode, backend: SparkStateBackend, context: OperatorContext) -> None:
        super().__init__(code, backend)
        self._context = context

    def fired(self, readings: Sequence[Reading[DataFrame]], to_ms: int) -> Slices:
        with self._context.naming_failures():
            return super().fired(readings, to_ms)


def in_windows(windows: EventTimeWindows, rows: DataFrame, event_time: EventTime) -> DataFrame:
    """The rows that belong to a window: those with an event time, and not in a gap between windows."""
    rows = rows.where(F.col(quoted(event_time.column)).isNotNull())
    if not windows.have_gaps:
        return rows
    since_start = since_last_start(windows, event_time_micros(event_time))
    return rows.where(since_start < F.lit(windows.size_ms * MICROS_PER_MS))


def by_window(windows: EventTimeWindows, state: DataFrame, after_ms: int | None, to_ms: int) -> DataFrame:
    """State by pane as state by window: each row once for each of its windows that start after `after_ms`, to `to_ms`.

    Every pane must be in at least one of these windows.
    """
    if not windows.overlap:
        return state
    pane, slide = F.col(TIME), F.lit(windows.slide_ms * MICROS_PER_MS)
    last = pane - since_last_start(windows, pane)
    # The window n slides before the last one has the pane where n * slide < last + size - pane.
    reach = last - pane + F.lit(windows.size_ms * MICROS_PER_MS - 1)
    first = last - (reach - F.pmod(reach, slide))
    if after_ms is not None:
        first = F.greatest(first, instant(windows.next_start(after_ms), pane))
    return state.withColumn(TIME, F.explode(F.sequence(first, F.least(last, instant(to_ms, pane)), slide)))


def pane_of(windows: EventTimeWindows, time: Column) -> Column:
    """The start of the pane of a time, in microseconds."""
    since_start = since_last_start(windows, time)
    start = time - since_start
    end = F.lit(windows.size_ms % windows.slide_ms * MICROS_PER_MS)
    if not windows.overlap or windows.size_ms % windows.slide_ms == 0:
        return start
    # Between two starts another window ends, and there a pane begins too.
    return F.when(since_start < end, start).otherwise(start + end)


def since_last_start(windows: EventTimeWindows, micros: Column) -> Column:
    since_offset = micros - F.lit(windows.offset_ms * MICROS_PER_MS) if windows.offset_ms else micros
    return F.pmod(since_offset, F.lit(windows.slide_ms * MICROS_PER_MS))


def _before(micros: Column, until_ms: int) -> Column:
    """True if a time, in microseconds, is before `until_ms`."""
    return micros < instant(until_ms, micros)


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
        if not self.allowed_lateness_ms or isinstance(self.plan, RowStateFunction):
            return ()
        return (WINDOW_START, WINDOW_END, *columns_of(self.plan.state_schema.keys))

    @property
    def fingerprint(self) -> str:
        windows = self.windows
        cut = f"size={windows.size_ms}, slide={windows.slide_ms}, offset={windows.offset_ms}"
        return f"window({cut}, state={self.plan.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        backend = SparkStateBackend(WindowLayout(self), context.storage)
        calls_function = isinstance(self.plan, RowStateFunction)
        panes = AppliedPanes(self, backend, context) if calls_function else SparkPanes(self, backend)
        fires_with_watermark = context.descriptor.vertex.firing_mode is FiringMode.ON_WATERMARK
        return WindowAggregateOperator(
            context.operator_id,
            self.windows,
            panes,
            backend,
            self.allowed_lateness_ms,
            fires_late_rows_at_once=self.allowed_lateness_ms > 0 and fires_with_watermark,
        )

    @property
    def state_schema(self) -> StateSchema:
        windows = self.windows
        cut = f"size={windows.size_ms}ms, slide={windows.slide_ms}ms, offset={windows.offset_ms}ms"
        return replace(self.plan.state_schema, windows=cut)

    def local_state(self, rows: DataFrame) -> DataFrame:
        """State made of rows, by pane; rows that belong to no window are left out."""
        rows = in_windows(self.windows, rows, self.event_time)
        return self.plan.local(rows, pane_of(self.windows, event_time_micros(self.event_time)))

    def state_times(self) -> Mapping[str, Column]:
        last_in_pane = F.lit((self.windows.slide_ms - 1) * MICROS_PER_MS)
        return {"first_micros": F.min(TIME), "last_micros": F.max(TIME) + last_in_pane}

    def previewed(self, rows: DataFrame) -> DataFrame:
        return self.fired(by_window(self.windows, self.local_state(rows), None, _LONG_MAX))

    def fired(self, state: DataFrame, *, are_all_news: bool = True) -> DataFrame:
        """The results of the windows in `state`, with their bounds as timestamps.

        If rows in it `are_all_news` every window fires of every key; else the column `NEWS` of the state says which do.
        """
        end = F.col(TIME) + F.lit(self.windows.size_ms * MICROS_PER_MS)
        bounds = {WINDOW_START: F.timestamp_micros(TIME), WINDOW_END: F.timestamp_micros(end)}
        compute = self.plan.compute_results if are_all_news else self.plan.compute_new_results
        return compute(state, **bounds)
