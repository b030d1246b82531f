"""Event time as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.functions.times import MICROS_PER_MS, first_micros_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flykka.spark_bridge.functions.event_time import EventTime

LATEST, EARLIEST = "latest", "earliest"


def event_time_micros(event_time: EventTime) -> Column:
    micros = F.unix_micros(F.col(quoted(event_time.column)).cast("timestamp"))
    return micros + F.lit(event_time.offset_ms * MICROS_PER_MS) if event_time.offset_ms else micros


def instant(milliseconds: int, beside: Column) -> Column:
    """Return a time in microseconds, for a comparison with the bigint column `beside`.

    Spark inlines constants into generated code, so it would compile the comparison again for each watermark. An array
    is passed by reference instead, unless Spark can evaluate the lookup in advance. So the index depends on the row.
    """
    return F.array(F.lit(first_micros_of(milliseconds)).cast("bigint"))[beside.bitwiseAND(F.lit(0)).cast("int")]


def times_of_watermarks(
    event_time: EventTime,
    punctuation: Column | str | None,
    *,
    watches_order: bool,
    where: Column | None = None,
) -> Mapping[str, Column]:
    """Return the aggregates from which watermarks are computed: the `latest` event time and, with `watches_order`, the
    `earliest`.

    Only rows for which `punctuation` and `where` are true are aggregated.
    """
    time = event_time_micros(event_time)
    if where is not None:
        time = F.when(where, time)
    if punctuation is not None:
        time = F.when(F.expr(punctuation) if isinstance(punctuation, str) else punctuation, time)
    return {LATEST: F.max(time), EARLIEST: F.min(time)} if watches_order else {LATEST: F.max(time)}
