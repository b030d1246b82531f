"""Validation of regular joins; errors name the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.data_stream import DataStream
from flykka.errors import FlykkaError, ProgramError, StreamTypeError
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import RegularJoinCode
from tests.flykka.programs import two_streams

pytestmark = pytest.mark.spark


def code_of(stream: DataStream) -> RegularJoinCode:
    code = stream.flow.operator.code
    assert isinstance(code, RegularJoinCode)
    return code


def test_only_columns_that_are_read_are_retained_without_expiry(spark: SparkSession) -> None:
    left, right = two_streams(spark, event_time=None)

    met = left.key_by("auction").regular_join(right.key_by("bidder")).on("left.price > 3").select("right.channel")

    code = code_of(met)
    assert [code.sides[side].rows.needed for side in Side] == [("auction", "price"), ("bidder", "channel")]
    assert not code.interval.has_upper_bound
    assert code.fingerprint.startswith("regular_join(inner, for ever, left ")
    assert met.flow.type.event_time is None


def test_the_time_to_live_is_part_of_the_fingerprint(spark: SparkSession) -> None:
    left, right = two_streams(spark, event_time=None)

    met = left.key_by("auction").regular_join(right.key_by("bidder")).time_to_live("1min").select("right.channel")

    assert code_of(met).fingerprint.startswith("regular_join(inner, 60000, left ")


@pytest.mark.parametrize(
    ("build", "error", "complaint"),
    [
        (lambda left, right: left.key_by("auction").regular_join(right), StreamTypeError, "takes another keyed stream"),
        (
            lambda left, right: left.key_by("auction").count().key_by("auction").regular_join(right.key_by("auction")),
            StreamTypeError,
            "are upserts by auction, but the join would keep results of rows that have changed",
        ),
        (
            lambda left, right: left.key_by("auction").regular_join(right.key_by("channel")).select("left.at"),
            StreamTypeError,
            "the key auction of the left side is bigint, and channel of the right side is string",
        ),
        (
            lambda left, right: left.key_by("auction").regular_join(right.key_by("auction")).select(),
            ProgramError,
            "needs at least one column",
        ),
        (
            lambda left, right: left.key_by("auction").regular_join(right.key_by("auction")).time_to_live("soon"),
            DurationError,
            "soon",
        ),
    ],
)
def test_invalid_joins_are_refused(
    spark: SparkSession,
    build: Callable[[DataStream, DataStream], Any],
    error: type[FlykkaError],
    complaint: str,
) -> None:
    with pytest.raises(error, match=complaint):
        build(*two_streams(spark, event_time=None))
