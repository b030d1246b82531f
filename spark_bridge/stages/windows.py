"""Windows as integer arithmetic on columns: `F.window` makes structs of timestamps, which cost a third more.

What windows and panes are is said in `event_time_windows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.spark_bridge.program.aggregates import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.program.code import WindowCode

MICROS_PER_MS = 1000
_LONG_MAX = 2**63 - 1


def local_state(code: WindowCode, rows: DataFrame) -> DataFrame:
    """State made of rows, by pane; rows that belong to no window are left out."""
    return code.plan.local(in_windows(code, rows), _pane(code.windows, event_time(code)))


def in_windows(code: WindowCode, rows: DataFrame) -> DataFrame:
    """The rows that belong to a window: those with an event time, and not in a gap between windows."""
    rows = rows.where(F.col(code.time_column).isNotNull())
    if not code.windows.have_gaps:
        return rows
    return rows.where(_since_start(code.windows, event_time(code)) < F.lit(code.windows.size_ms * MICROS_PER_MS))


def event_time(code: WindowCode) -> Column:
    """The event time of a row, in microseconds."""
    return F.unix_micros(F.col(code.time_column).cast("timestamp"))


def by_window(windows: EventTimeWindows, state: DataFrame, after_ms: int | None, to_ms: int) -> DataFrame:
    """State by pane as state by window: each row once for each of its windows that start after `after_ms`, to `to_ms`.

    Every pane must be in at least one of these windows.
    """
    if not windows.overlap:
        return state
    pane, slide = F.col(WINDOW), F.lit(windows.slide_ms * MICROS_PER_MS)
    last = pane - _since_start(windows, pane)
    # The window n slides before the last one has the pane where n * slide < last + size - pane.
    reach = last - pane + F.lit(windows.size_ms * MICROS_PER_MS - 1)
    first = last - (reach - F.pmod(reach, slide))
    if after_ms is not None:
        first = F.greatest(first, _micros(windows.next_start(after_ms)))
    return state.withColumn(WINDOW, F.explode(F.sequence(first, F.least(last, _micros(to_ms)), slide)))


def fired(code: WindowCode, state: DataFrame) -> DataFrame:
    """The results of the windows in `state`, with their bounds as timestamps."""
    results = code.plan.finish(state)
    bounds = (
        F.timestamp_micros(WINDOW).alias("window_start"),
        F.timestamp_micros(F.col(WINDOW) + F.lit(code.windows.size_ms * MICROS_PER_MS)).alias("window_end"),
    )
    # By place: a key or an aggregate may have any name.
    return results.select(*bounds, *(results[place] for place in range(1, len(results.columns))))


def all_fired(code: WindowCode, rows: DataFrame) -> DataFrame:
    """The results of all windows of some rows, as if these were all there are."""
    return fired(code, by_window(code.windows, local_state(code, rows), None, _LONG_MAX))


def between(state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
    """The state of panes that start at `from_ms` or later and before `until_ms`; None is no bound."""
    if from_ms is not None:
        state = state.where(F.col(WINDOW) >= _micros(from_ms))
    if until_ms is not None:
        state = state.where(before(F.col(WINDOW), until_ms))
    return state


def before(micros: Column, until_ms: int) -> Column:
    """Whether a time, in microseconds, is before `until_ms`."""
    return micros < _micros(until_ms)


def start_numbers() -> dict[str, Column]:
    """What is counted of state: the first and the last pane."""
    return {"first_micros": F.min(WINDOW), "last_micros": F.max(WINDOW)}


def _pane(windows: EventTimeWindows, time: Column) -> Column:
    since_start = _since_start(windows, time)
    start = time - since_start
    end = F.lit(windows.size_ms % windows.slide_ms * MICROS_PER_MS)
    if not windows.overlap or windows.size_ms % windows.slide_ms == 0:
        return start
    # Between two starts another window ends, and there a pane begins too.
    return F.when(since_start < end, start).otherwise(start + end)


def _since_start(windows: EventTimeWindows, micros: Column) -> Column:
    """How long before a time the last window started."""
    since_offset = micros - F.lit(windows.offset_ms * MICROS_PER_MS) if windows.offset_ms else micros
    return F.pmod(since_offset, F.lit(windows.slide_ms * MICROS_PER_MS))


def _micros(milliseconds: int) -> Column:
    return F.lit(max(-_LONG_MAX, min(_LONG_MAX, milliseconds * MICROS_PER_MS))).cast("bigint")
