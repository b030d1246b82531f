"""Spark's Python workers import the packages as the driver does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _round_trip(end: int) -> str:
    from flykka.messages.state.handles import KeyGroupRange
    from flykka.messages.wire.codec import decode, encode

    back = decode(encode(KeyGroupRange(start=0, end=end)))
    return f"{type(back).__module__} {back}"


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_imports_the_packages_by_their_full_names(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    in_a_worker = F.udf(_round_trip, "string")

    rows = spark.createDataFrame([(127,)], "key_group int").select(in_a_worker("key_group")).collect()

    assert [row[0] for row in rows] == ["flykka.messages.state.handles KeyGroupRange(start=0, end=127)"]
