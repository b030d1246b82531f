"""Nexmark's events as a source, and its three views: persons, auctions and bids."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark.sql import functions as F

from examples.nexmark.generator import AUCTION, BID, PERSON, events
from flykka import DataGenSource, DataStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS = {
    "event_type": "int",
    "person": "struct<id: bigint, name: string, emailAddress: string, creditCard: string, city: string, state: string,"
    " extra: string>",
    "auction": "struct<id: bigint, itemName: string, description: string, initialBid: bigint, reserve: bigint,"
    " expires: timestamp, seller: bigint, category: bigint, extra: string>",
    "bid": "struct<auction: bigint, bidder: bigint, price: bigint, channel: string, url: string, extra: string>",
    "dateTime": "timestamp",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _FIELDS.items())
"""The columns of events, as Spark DDL."""

_EVENT = f"struct<{', '.join(f'{name}: {kind}' for name, kind in _FIELDS.items())}>"

EVENT_TIME = "dateTime"
WATERMARK_DELAY = "4 seconds"
"""The out-of-orderness bound in Nexmark's table definitions, although no event is late."""

VIEWS = {
    "person": (PERSON, "id name emailAddress creditCard city state dateTime extra"),
    "auction": (
        AUCTION,
        "id itemName description initialBid reserve dateTime expires seller category extra",
    ),
    "bid": (BID, "auction bidder price channel url dateTime extra"),
}
"""The views by name, each with the type and the columns of its events."""

Rows = TypeVar("Rows", "DataFrame", DataStream)


def nexmark_source(
    number_of_events: int | None,
    *,
    events_per_second: float | None = None,
    rows_per_batch: int = 500_000,
    seed: int = 1,
) -> DataGenSource:
    """Return a source of Nexmark's events from number 0, bounded by `number_of_events`, or unbounded if it is None.

    The rate is that of arrival, by default as fast as they are read; event times always have 10,000 per second. Raises
    `ValueError` in the same cases as `DataGenSource`.
    """
    return DataGenSource(
        Events(seed),
        number_of_rows=number_of_events,
        rows_per_second=events_per_second,
        rows_per_batch=rows_per_batch,
    )


class Events:
    """Generates the events for a DataFrame of numbers in Spark's Python workers, which must import this module."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, numbers: DataFrame) -> DataFrame:
        """Return the events with the numbers in the column `index`."""
        seed = self._seed

        def made(index: pa.Array) -> pa.Array:
            return events(index.to_numpy(), seed).to_struct_array().combine_chunks()

        # One call generates all columns. PySpark needs type annotations to infer the kind of the function, or warns.
        event = F.arrow_udf(made, _EVENT)  # type: ignore[call-overload]
        return numbers.select(event("index").alias("event")).select("event.*")


def view(name: str, of: Rows) -> Rows:
    """Return the events of one of `VIEWS`, from a stream or a table of events."""
    event_type, columns = VIEWS[name]
    qualified = (column if column == EVENT_TIME else f"{name}.{column}" for column in columns.split())
    return of.where(F.col("event_type") == event_type).select(*qualified)
