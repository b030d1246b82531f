"""Tests Nexmark: its generator, and its queries as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from examples.nexmark.generator import AUCTION, BID, PERSON, events
from examples.nexmark.queries import QUERIES, create_views, digest, text
from examples.nexmark.source import Events, nexmark_source

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 100_000
SEED = 1


def events_between(first: int, behind: int, seed: int = SEED) -> pa.Table:
    return events(np.arange(first, behind), seed)


def of_type(rows: pa.Table, event_type: int, name: str) -> pa.Table:
    return pa.Table.from_struct_array(rows.filter(pc.equal(rows["event_type"], event_type))[name])


def share(is_so: pa.ChunkedArray) -> float:
    answer: float = pc.mean(is_so.cast(pa.int8())).as_py()
    return answer


@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.long), 7, 50, 149])
def test_an_event_does_not_depend_on_the_batch_size(rows: int) -> None:
    whole = events_between(100, 250)

    batches = [events_between(first, min(first + rows, 250)) for first in range(100, 250, rows)]

    assert pa.concat_tables(batches).combine_chunks().equals(whole.combine_chunks())


def test_a_seed_generates_the_same_events_and_another_seed_others() -> None:
    assert events_between(0, 500, seed=1).equals(events_between(0, 500, seed=1))
    assert not events_between(0, 500, seed=1).equals(events_between(0, 500, seed=2))


def test_fifty_events_contain_one_person_three_auctions_and_46_bids() -> None:
    rows = events_between(0, 5_000)

    assert rows["event_type"].to_pylist() == ([PERSON] + [AUCTION] * 3 + [BID] * 46) * 100
    for event_type, name in ((PERSON, "person"), (AUCTION, "auction"), (BID, "bid")):
        assert pc.is_valid(rows[name]).equals(pc.equal(rows["event_type"], event_type))


def test_event_times_advance_at_ten_thousand_events_per_second() -> None:
    times = events_between(0, 20_001)["dateTime"]

    assert pc.all(pc.less(times.slice(0, 20_000), times.slice(1))).as_py()
    assert (times[10_000].as_py() - times[0].as_py()).total_seconds() == 1
    assert (times[20_000].as_py() - times[0].as_py()).total_seconds() == 2


def test_ids_of_persons_and_auctions_have_no_gaps() -> None:
    rows = events_between(0, 50_000)

    assert of_type(rows, PERSON, "person")["id"].to_pylist() == list(range(1_000, 2_000))
    assert of_type(rows, AUCTION, "auction")["id"].to_pylist() == list(range(1_000, 4_000))


def test_every_other_bid_is_for_the_hot_auction() -> None:
    bids = of_type(events_between(100_000, 200_000), BID, "bid")

    # One in a hundred of the other auctions is hot too.
    assert 0.5 < np.mean(bids["auction"].to_numpy() % 100 == 0) < 0.51
    assert 0.745 < np.mean(bids["bidder"].to_numpy() % 100 == 1) < 0.76


def test_bids_are_for_the_last_hundred_or_next_ten_auctions() -> None:
    rows = events_between(100_000, 200_000)
    numbers = np.arange(100_000, 200_000)[rows["event_type"].to_numpy() == BID]
    newest = 1_000 + numbers // 50 * 3 + 2
    auction = of_type(rows, BID, "bid")["auction"].to_numpy()

    ahead = (auction - newest)[auction % 100 != 0]

    assert (ahead.min(), ahead.max()) == (-100, 10)


def test_auctions_last_at_most_a_third_of_a_second() -> None:
    rows = events_between(0, 50_000)
    opened = rows.filter(pc.equal(rows["event_type"], AUCTION))["dateTime"]
    auctions = of_type(rows, AUCTION, "auction")

    lasted_us = pc.subtract(auctions["expires"].cast(pa.int64()), opened.cast(pa.int64()))

    assert 1_000 <= pc.min(lasted_us).as_py() < 5_000
    assert 325_000 < pc.max(lasted_us).as_py() <= 332_000
    assert sorted(set(auctions["category"].to_pylist())) == [10, 11, 12, 13, 14]
    assert pc.all(pc.greater(auctions["reserve"], auctions["initialBid"])).as_py()


def test_the_extra_field_pads_events_to_their_size() -> None:
    rows = events_between(0, 50_000)
    person, auction, bid = (of_type(rows, *each) for each in ((PERSON, "person"), (AUCTION, "auction"), (BID, "bid")))

    texts = ("name", "emailAddress", "creditCard", "city", "state", "extra")
    sizes = {
        200: 8 + sum(pc.mean(pc.binary_length(person[name])).as_py() for name in texts),
        500: 48
        + sum(pc.mean(pc.binary_length(auction[name])).as_py() for name in ("itemName", "description", "extra")),
        100: 32 + pc.mean(pc.binary_length(bid["extra"])).as_py(),
    }

    for wanted, size in sizes.items():
        assert wanted * 0.98 < size < wanted * 1.02


def test_half_of_the_channels_are_hot() -> None:
    bids = of_type(events_between(0, 50_000), BID, "bid")
    is_hot = pc.is_in(bids["channel"], pa.array(["Google", "Facebook", "Baidu", "Apple"]))
    page = r"^https://www.nexmark.com/([a-z_]{3,4}/){3}item.htm\?query=1"
    has_id = pc.match_substring_regex(bids["url"], page + r"&channel_id=\d+$")

    assert pc.all(pc.match_substring_regex(bids["url"], page)).as_py()
    assert 0.49 < share(is_hot) < 0.51
    assert share(has_id.filter(is_hot)) == 0
    assert 0.88 < share(has_id.filter(pc.invert(is_hot))) < 0.92


def test_an_unbounded_source_has_a_rate() -> None:
    assert nexmark_source(1_000).number_of_rows == 1_000
    assert nexmark_source(None, events_per_second=1_000).number_of_rows is None
    with pytest.raises(ValueError, match="rows_per_second"):
        nexmark_source(None)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return Events(SEED)(spark.range(EVENTS).withColumnRenamed("id", "index")).cache()


PINNED = {
    "q0": (92000, 355688082952765809289),
    "q1": (92000, 763661174207383663757),
    "q2": (388, 12482072472778685135),
    "q3": (417, -32712096711860920931),
    "q4": (5, -1592395797644518724),
    "q5": (10, 13288189615331669343),
    "q6": (5558, -677052771290685504239),
    "q7": (1, -8639844497498363316),
    "q8": (963, 70938084726853023168),
    "q9": (5558, 394574054370958287397),
    "q10": (92000, -588286175892264751578),
    "q11": (1923, 260987504587950028597),
    "q12": (1923, 16787772589407212582),
    "q13": (92000, 3000186775046386826682),
    "q14": (26131, -727992862243557749967),
    "q15": (1, -682467304463470440),
    "q16": (9912, 251052713871588601846),
    "q17": (5994, 648687274990094321857),
    "q18": (28385, -23840550387212467036),
    "q19": (43943, 1269037797709639380654),
    "q20": (13641, -574483592357143111976),
    "q21": (87150, -2551461343462049799692),
    "q22": (92000, -992154313119166565262),
}
"""The row count of each query, and the sum of the rows' hashes."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_the_batch_returns_the_pinned_results(spark: SparkSession, table: DataFrame, query: str) -> None:
    create_views(table)

    assert digest(spark.sql(text(query))) == PINNED[query]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_parses_each_query(spark: SparkSession) -> None:
    create_views(Events(SEED)(spark.range(0).withColumnRenamed("id", "index")))

    for query in QUERIES:
        assert spark.sql(text(query)).columns


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.long), 3])
def test_spark_generates_the_same_events_as_the_generator(spark: SparkSession, partitions: int) -> None:
    numbers = spark.range(0, 500, 1, partitions).withColumnRenamed("id", "index")

    generated = Events(SEED)(numbers).toArrow()

    assert generated.to_pylist() == events_between(0, 500).to_pylist()


def test_each_query_has_a_description() -> None:
    for query in QUERIES:
        first, *_, last = text(query).splitlines()
        assert first.startswith("-- ")
        assert not last.startswith("--")
