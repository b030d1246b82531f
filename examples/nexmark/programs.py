"""Queries of Nexmark as DataStream programs; their SQL is in the files `q5.sql` and so on.

A program is a function of the views. q17 and q18 emit the row of a key again when it changes, so the newest row of a
key is the current one; all other programs emit each row once. q7, q8 and q15 need one pass over windows where SQL joins
and groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from examples.nexmark.queries import side_input
from examples.nexmark.source import view
from flykka import DataStream, EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TEN_SECONDS = TumblingEventTimeWindows.of("10s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The streams of persons, auctions and bids, and the lookup table of q13."""

    person: DataStream
    auction: DataStream
    bid: DataStream
    side_input: DataFrame

    @classmethod
    def of(cls, events: DataStream, session: SparkSession) -> Views:
        streams = {name: view(name, events) for name in ("person", "auction", "bid")}
        return cls(**streams, side_input=side_input(session))


def q0(views: Views) -> DataStream:
    """Forwards bids."""
    return views.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(views: Views) -> DataStream:
    """Converts prices to euros."""
    return views.bid.select_expr("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")


def q2(views: Views) -> DataStream:
    """Finds the bids for every 123rd auction."""
    return views.bid.where(F.col("auction") % 123 == 0).select("auction", "price")


def q5(views: Views) -> DataStream:
    """Finds the auctions with the most bids in the last 10 seconds, every 2 seconds.

    The event time of the counts is the end of their window, and there is one window every 2 seconds.
    """
    counted = views.bid.key_by("auction").window(SlidingEventTimeWindows.of("10s", "2s"))
    counts = counted.aggregate(F.count("*").alias("num"))
    # The second windows have their own bounds.
    renamed = counts.with_column_renamed("window_start", "starttime").with_column_renamed("window_end", "endtime")
    hottest = renamed.window_all(TumblingEventTimeWindows.of("2s")).apply(_with_most_bids)
    return hottest.select("auction", "num", "starttime", "endtime")


def _with_most_bids(counts: DataFrame) -> DataFrame:
    return _highest(counts, "num")


def q7(views: Views) -> DataStream:
    """Finds the highest bids of every 10 seconds."""
    highest = views.bid.select("auction", "price", "bidder", "dateTime", "extra").window_all(TEN_SECONDS)
    return highest.apply(_with_highest_price).select("auction", "price", "bidder", "dateTime", "extra")


def _with_highest_price(bids: DataFrame) -> DataFrame:
    return _highest(bids, "price")


def q8(views: Views) -> DataStream:
    """Finds persons who have registered and opened an auction in the same 10 seconds."""
    registered = views.person.select("id", "name", F.lit(0).alias("auctions"), "dateTime")
    opened = views.auction.select_expr("seller AS id", "CAST(NULL AS STRING) AS name", "1 AS auctions", "dateTime")
    met = registered.union(opened).key_by("id").window(TEN_SECONDS)
    both = met.aggregate(F.max("name").alias("name"), F.sum("auctions").alias("auctions"))
    return both.where("name IS NOT NULL AND auctions > 0").select_expr("id", "name", "window_start AS starttime")


def q10(views: Views) -> DataStream:
    """Adds day and minute to each bid."""
    day, minute = (F.date_format("dateTime", pattern) for pattern in ("yyyy-MM-dd", "HH:mm"))
    return views.bid.select("auction", "bidder", "price", "dateTime", "extra", day.alias("dt"), minute.alias("hm"))


def q11(views: Views) -> DataStream:
    """Counts the bids of sessions."""
    return _counted(views, EventTimeSessionWindows.with_gap("10s"))


def q12(views: Views) -> DataStream:
    """Counts the bids of each bidder in every 10 seconds."""
    return _counted(views, TEN_SECONDS)


def _counted(views: Views, windows: EventTimeSessionWindows | TumblingEventTimeWindows) -> DataStream:
    counts = views.bid.key_by("bidder").window(windows).aggregate(F.count("*").alias("bid_count"))
    return counts.select("bidder", "bid_count", F.col("window_start").alias("starttime"), _end_as("endtime"))


def q13(views: Views) -> DataStream:
    """Looks up a value for each bid."""
    with_key = views.bid.with_column("key", F.col("auction") % 10_000)
    return with_key.join(views.side_input, "key").select("auction", "bidder", "price", "dateTime", "value")


def q14(views: Views) -> DataStream:
    """Finds the bids in a range of prices, with the time of day in words."""
    hour = F.hour("dateTime")
    time_of_day = (
        F.when(hour.between(8, 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime").otherwise("otherTime")
    )
    euros = views.bid.with_column("price", F.expr("0.908 * price"))
    return euros.where("price > 1000000 AND price < 50000000").select(
        "auction",
        "bidder",
        "price",
        time_of_day.alias("bidTimeType"),
        "dateTime",
        "extra",
        F.expr("CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts"),
    )


def q15(views: Views) -> DataStream:
    """Counts the bids, bidders and auctions of each day, when the day has ended."""
    columns = [
        F.count_distinct(F.when(is_in, F.col(counted))).alias(f"{rank}_{counted}s")
        for counted in ("bidder", "auction")
        for rank, is_in in _ranks().items()
    ]
    days = views.bid.window_all(TumblingEventTimeWindows.of("1d")).aggregate(*_ranked_bids(), *columns)
    names = (f"{rank}_{counted}" for counted in ("bids", "bidders", "auctions") for rank in _ranks())
    return days.select(F.date_format("window_start", "yyyy-MM-dd").alias("day"), *names)


def q17(views: Views) -> DataStream:
    """Emits the number of bids and the prices for each auction and day, again when they change."""
    prices = (F.min, "min"), (F.max, "max"), (F.avg, "avg"), (F.sum, "sum")
    columns = (function("price").alias(f"{name}_price") for function, name in prices)
    days = views.bid.with_column("day", F.date_format("dateTime", "yyyy-MM-dd"))
    return days.key_by("auction", "day").aggregate(*_ranked_bids(), *columns)


def q18(views: Views) -> DataStream:
    """Emits the last bid of each bidder for each auction, and emits an updated row for every later bid."""
    last = views.bid.key_by("bidder", "auction").max_by("dateTime")
    return last.select("auction", "bidder", "price", "channel", "url", "dateTime", "extra")


def q21(views: Views) -> DataStream:
    """Maps the channels of bids to numbers."""
    in_url = F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2)
    channel = F.lower("channel")
    numbered = F.when(channel == "apple", "0").when(channel == "google", "1").when(channel == "facebook", "2")
    channel_id = numbered.when(channel == "baidu", "3").otherwise(in_url)
    named = views.bid.select("auction", "bidder", "price", "channel", channel_id.alias("channel_id"))
    return named.where("channel_id <> ''")


def q22(views: Views) -> DataStream:
    """Extracts the first three folders of URLs."""
    folders = (F.split_part("url", F.lit("/"), F.lit(3 + depth)).alias(f"dir{depth}") for depth in (1, 2, 3))
    return views.bid.select("auction", "bidder", "price", "channel", *folders)


def _end_as(name: str) -> Column:
    return F.col("window_end").alias(name)


def _highest(rows: DataFrame, column: str) -> DataFrame:
    """Return the rows of each window with the maximum of a column."""
    of_window = Window.partitionBy("window_start", "window_end")
    return rows.withColumn("highest", F.max(column).over(of_window)).where(F.col(column) == F.col("highest"))


def _ranks() -> dict[str, Column]:
    price = F.col("price")
    return {
        "total": F.lit(True),
        "rank1": price < 10_000,
        "rank2": (price >= 10_000) & (price < 1_000_000),
        "rank3": price >= 1_000_000,
    }


def _ranked_bids() -> list[Column]:
    return [F.sum(F.when(is_in, 1).otherwise(0)).alias(f"{rank}_bids") for rank, is_in in _ranks().items()]


PROGRAMS: dict[str, Callable[[Views], DataStream]] = {
    program.__name__: program for program in (q0, q1, q2, q5, q7, q8, q10, q11, q12, q13, q14, q15, q17, q18, q21, q22)
}
"""The programs by query name."""
