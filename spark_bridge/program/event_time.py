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
    """A time in microseconds, to be compared with the bigint column `beside`.

    Spark writes numbers into the code that it compiles: it would compile the comparison again for each watermark. An
    array it hands over to the code, unless it can look up the place beforehand: so this one is computed of a row.
    """
    return F.array(F.lit(first_micros_of(milliseconds)).cast("bigint"))[beside.bitwiseAND(F.lit(0)).cast("int")]


def times_of_watermarks(
    event_time: EventTime,
    punctuation: Column | str | None,
    *,
    watches_order: bool,
    where: Column | None = None,
) -> Mapping[str, Column]:
    """The aggregates over rows that watermarks are made of: the `latest` event time, and where needed the `earliest`.

    With a `punctuation` only the rows count for which it is true, and so it is with `where`.
    """
    time = event_time_micros(event_time)
    if where is not None:
        time = F.when(where, time)
    if punctuation is not None:
        time = F.when(F.expr(punctuation) if isinstance(punctuation, str) else punctuation, time)
    return {LATEST: F.max(time), EARLIEST: F.min(time)} if watches_order else {LATEST: F.max(time)}
