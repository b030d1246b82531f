"""Tests that collected rows have times in UTC, whatever the time zones of the driver and the session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.saved_state.reading import collected

pytestmark = pytest.mark.spark


@pytest.fixture(params=["America/New_York", "Asia/Tokyo"])
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def test_collected_values_equal_those_in_functions(spark: SparkSession, zone: str) -> None:
    # 01:30 in New York, in summer time, and again one hour later.
    first, second = (datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6))
    row = {
        "at": second,
        "local": datetime(2026, 11, 1, 1, 30),
        "times": [first, None, second],
        "st": {"at": first, "n": 1},
        "by_time": {first: {"at": second}},
        "day": date(2026, 11, 1),
        "none": None,
    }
    rows = spark.createDataFrame(
        [row],
        "at timestamp, local timestamp_ntz, times array<timestamp>, st struct<at: timestamp, n: int>,"
        " by_time map<timestamp, struct<at: timestamp>>, day date, none timestamp",
    )

    values = collected(rows)

    assert values == [row]
    assert values[0]["at"].utcoffset() == first.utcoffset()
