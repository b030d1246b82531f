"""Windows with Spark: arithmetic on integer columns, since `F.window` creates structs of timestamps and is a third
slower.

`event_time_windows.py` defines windows and panes.
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
    def __init__(self, code: WindowCode) -> None:
        super().__init__(code.plan)
        self._windows = code.windows

    def times(self) -> Mapping[str, Column]:
        return {"first_micros": F.min(TIME), "last_micros": F.max(TIME)}

    def between(self, state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
        if from_ms is not None:
            state = state.where(F.col(TIME) >= instant(from_ms, F.col(TIME)))
        if until_ms is not None:
            state = state.where(_before(F.col(TIME), until_ms))
        return state

    def later(self, state: DataFrame, closed_to_ms: int | None) -> DataFrame:
        """Return the state of panes that belong to a window starting after `closed_to_ms`."""
        return state if closed_to_ms is None else self.between(state, self._windows.next_start(closed_to_ms), None)


class SparkPanes:
    def __init__(self, code: WindowCode, backend: SparkStateBackend) -> None:
        self._code = code
        self._backend = backend

    def arrived(self, element: Element[Slices], closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
        """Convert a batch to state. Runs a Spark job only if rows may be late or are not aggregated yet."""
        code, batch, (rows,) = self._code, element.batch, element.rows
        assert batch is not None, "the rows of windows must come from an input gate"
        if TIME not in rows.columns:
            return self._of_rows(rows, closed_to_ms)
        # Rows that were aggregated before the exchange are state already, unless some are late.
        first, last = batch.event_time_min, batch.event_time_max
        assert first is not None, f"the state {batch.batch_id} has no pane times"
        assert last is not None, f"the state {batch.batch_id} has no pane times"
        if closed_to_ms is None or first >= code.windows.next_start(closed_to_ms):
            return Arrived(segment=self._backend.adopt(batch, rows, first, last - code.windows.slide_ms + 1))
        late = _before(F.col(TIME), code.windows.next_start(closed_to_ms))
        observation, observed = counted(rows, {"late": code.plan.input_rows(late)})
        segment = self._backend.keep(observed.where(~late))
        return Arrived(segment=segment, late_rows=int(numbers_of(observation).get("late") or 0))

    def _of_rows(self, rows: DataFrame, closed_to_ms: int | None) -> Arrived[Slices, DataFrame]:
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
    def __init__(self, code: WindowCode, backend: SparkStateBackend, context: OperatorContext) -> None:
        super().__init__(code, backend)
        self._context = context

    def fired(self, readings: Sequence[Reading[DataFrame]], to_ms: int) -> Slices:
        with self._context.naming_failures():
            return super().fired(readings, to_ms)


def in_windows(windows: EventTimeWindows, rows: DataFrame, event_time: EventTime) -> DataFrame:
    """Return the rows that belong to a window: rows with an event time that is not in a gap between windows."""
    rows = rows.where(F.col(quoted(event_time.column)).isNotNull())
    if not windows.have_gaps:
        return rows
    since_start = since_last_start(windows, event_time_micros(event_time))
    return rows.where(since_start < F.lit(windows.size_ms * MICROS_PER_MS))


def by_window(windows: EventTimeWindows, state: DataFrame, after_ms: int | None, to_ms: int) -> DataFrame:
    """Convert state by pane to state by window: each row is copied to all of its windows that start after `after_ms`,
    up to `to_ms`.

    Every pane must be in at least one of these windows.
    """
    if not windows.overlap:
        return state
    pane, slide = F.col(TIME), F.lit(windows.slide_ms * MICROS_PER_MS)
    last = pane - since_last_start(windows, pane)
    # The window that starts n slides before the last window contains the pane if n * slide < last + size - pane.
    reach = last - pane + F.lit(windows.size_ms * MICROS_PER_MS - 1)
    first = last - (reach - F.pmod(reach, slide))
    if after_ms is not None:
        first = F.greatest(first, instant(windows.next_start(after_ms), pane))
    return state.withColumn(TIME, F.explode(F.sequence(first, F.least(last, instant(to_ms, pane)), slide)))


def pane_of(windows: EventTimeWindows, time: Column) -> Column:
    """Return the start of the pane that contains a time, in microseconds."""
    since_start = since_last_start(windows, time)
    start = time - since_start
    end = F.lit(windows.size_ms % windows.slide_ms * MICROS_PER_MS)
    if not windows.overlap or windows.size_ms % windows.slide_ms == 0:
        return start
    # A pane also begins at the end of an earlier window between two starts.
    return F.when(since_start < end, start).otherwise(start + end)


def since_last_start(windows: EventTimeWindows, micros: Column) -> Column:
    since_offset = micros - F.lit(windows.offset_ms * MICROS_PER_MS) if windows.offset_ms else micros
    return F.pmod(since_offset, F.lit(windows.slide_ms * MICROS_PER_MS))


def _before(micros: Column, until_ms: int) -> Column:
    return micros < instant(until_ms, micros)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCode(AggregateCode):
    """Windows over the event time of rows.

    With `side_outputs_late_data`, late rows are passed to `SideOutputCode` instead of being dropped. Rows must then
    arrive unaggregated, with no local part before the exchange. Until `allowed_lateness_ms` after its end a window
    fires again if rows arrive for it.
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
        """The window and keys, if windows may emit aggregates again. A function may return any number of rows."""
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
        """Aggregate rows into state by pane. Rows that belong to no window are dropped."""
        rows = in_windows(self.windows, rows, self.event_time)
        return self.plan.local(rows, pane_of(self.windows, event_time_micros(self.event_time)))

    def state_times(self) -> Mapping[str, Column]:
        last_in_pane = F.lit((self.windows.slide_ms - 1) * MICROS_PER_MS)
        return {"first_micros": F.min(TIME), "last_micros": F.max(TIME) + last_in_pane}

    def previewed(self, rows: DataFrame) -> DataFrame:
        return self.fired(by_window(self.windows, self.local_state(rows), None, _LONG_MAX))

    def fired(self, state: DataFrame, *, are_all_news: bool = True) -> DataFrame:
        """Return the results of the windows in `state`, with their bounds as timestamps.

        With `are_all_news`, every window fires for every key. Otherwise a window only fires for keys that have a row of
        state with `NEWS`.
        """
        end = F.col(TIME) + F.lit(self.windows.size_ms * MICROS_PER_MS)
        bounds = {WINDOW_START: F.timestamp_micros(TIME), WINDOW_END: F.timestamp_micros(end)}
        compute = self.plan.compute_results if are_all_news else self.plan.compute_new_results
        return compute(state, **bounds)
