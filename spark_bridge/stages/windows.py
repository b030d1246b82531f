"""Tumbling windows as integer arithmetic: `F.window` makes structs of timestamps, which cost a third more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.messages.exchange import WATERMARK_MAX
from flykka.spark_bridge.aggregates import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.code import WindowCode

MICROS_PER_MS = 1000
_LONG_MAX = 2**63 - 1


def local_state(code: WindowCode, rows: DataFrame) -> DataFrame:
    """State made of rows; rows without an event time belong to no window."""
    time = F.unix_micros(F.col(code.time_column).cast("timestamp"))
    size, offset = code.size_ms * MICROS_PER_MS, code.offset_ms * MICROS_PER_MS
    window = time - F.pmod(time - F.lit(offset) if offset else time, F.lit(size))
    return code.plan.local(rows.where(F.col(code.time_column).isNotNull()), window)


def fired(code: WindowCode, state: DataFrame) -> DataFrame:
    """The results of the windows in `state`, with their bounds as timestamps."""
    results = code.plan.finish(state)
    bounds = (
        F.timestamp_micros(WINDOW).alias("window_start"),
        F.timestamp_micros(F.col(WINDOW) + F.lit(code.size_ms * MICROS_PER_MS)).alias("window_end"),
    )
    # By place: a key or an aggregate may have any name.
    return results.select(*bounds, *(results[place] for place in range(1, len(results.columns))))


def between(state: DataFrame, after_ms: int | None, to_ms: int | None) -> DataFrame:
    """The state of windows that start after `after_ms` and at or before `to_ms`; None is no bound."""
    if after_ms is not None:
        state = state.where(F.col(WINDOW) > _micros(after_ms))
    if to_ms is not None:
        state = state.where(F.col(WINDOW) <= _micros(to_ms))
    return state


def last_fired_start(code: WindowCode, watermark_ms: int) -> int:
    """The latest start (ms) that a window fired by the watermark can have: its last millisecond has passed."""
    return WATERMARK_MAX if watermark_ms == WATERMARK_MAX else watermark_ms + 1 - code.size_ms


def start_numbers() -> dict[str, Column]:
    """What is counted of state: the first and the last window start."""
    return {"first_micros": F.min(WINDOW), "last_micros": F.max(WINDOW)}


def _micros(milliseconds: int) -> Column:
    return F.lit(max(-_LONG_MAX, min(_LONG_MAX, milliseconds * MICROS_PER_MS))).cast("bigint")
