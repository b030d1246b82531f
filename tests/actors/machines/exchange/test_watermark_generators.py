"""The watermarks that a source emits with each generator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.exchange.watermarks import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    MonotonyViolated,
    NoWatermarks,
    PunctuatedWatermarks,
    TimestampsAndWatermarks,
    WatermarkGenerator,
    watermark_generator,
)
from flykka.messages.graph.job_graph import JobVertex, MonotonyViolationHandler
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, Watermark
from flykka.messages.tasks.source import PartitionTime
from flykka.messages.wire.ids import JobVertexId

FAIL = MonotonyViolationHandler.FAIL
LOG = MonotonyViolationHandler.LOG
IGNORE = MonotonyViolationHandler.IGNORE


def watermarks(generator: WatermarkGenerator, *batches: tuple[int, int]) -> list[int]:
    said = []
    for earliest_ms, latest_ms in batches:
        generator.on_batch(earliest_ms, latest_ms)
        said.append(generator.watermark_ms)
    return said


def test_a_bounded_watermark_trails_the_latest_row_by_delay_plus_one() -> None:
    generator = BoundedOutOfOrdernessWatermarks(10)

    assert watermarks(generator, (13, 20), (15, 15), (16, 500)) == [9, 9, 489]


@pytest.mark.parametrize("generator", [BoundedOutOfOrdernessWatermarks(10), AscendingTimestampsWatermarks(IGNORE)])
def test_a_watermark_does_not_underflow_the_minimum_timestamp(generator: WatermarkGenerator) -> None:
    assert watermarks(generator, (WATERMARK_MIN, WATERMARK_MIN)) == [WATERMARK_MIN]


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="delay of a watermark"):
        BoundedOutOfOrdernessWatermarks(-1)


def test_an_ascending_source_may_repeat_its_latest_time() -> None:
    generator = AscendingTimestampsWatermarks(FAIL)

    assert [generator.on_batch(1000, 1000), generator.on_batch(1000, 1000)] == [None, None]
    assert generator.watermark_ms == 999


@pytest.mark.parametrize(
    ("handler", "violation"),
    [
        (IGNORE, None),
        (LOG, MonotonyViolated(timestamp_ms=999, latest_ms=1000, is_fatal=False)),
        (FAIL, MonotonyViolated(timestamp_ms=999, latest_ms=1000, is_fatal=True)),
    ],
)
def test_the_handler_decides_the_reaction_if_time_goes_back(
    handler: MonotonyViolationHandler, violation: MonotonyViolated | None
) -> None:
    generator = AscendingTimestampsWatermarks(handler)
    generator.on_batch(500, 1000)

    assert generator.on_batch(999, 1001) == violation
    assert generator.watermark_ms == 1000


def test_punctuated_watermarks_equal_the_times_of_their_rows() -> None:
    assert watermarks(PunctuatedWatermarks(), (3, 3), (2, 2), (4, 9)) == [3, 3, 9]


def test_without_event_time_only_the_final_watermark_is_sent() -> None:
    operator = TimestampsAndWatermarks(NoWatermarks)
    operator.on_batch(5, 10)

    assert operator.emit() is None
    assert operator.on_watermark(Watermark(timestamp_ms=WATERMARK_MAX)) == Watermark(timestamp_ms=WATERMARK_MAX)


def test_a_watermark_is_emitted_once_and_only_if_it_has_advanced() -> None:
    operator = TimestampsAndWatermarks(lambda: BoundedOutOfOrdernessWatermarks(0))
    operator.on_batch(1, 5)

    assert [operator.emit(), operator.emit()] == [Watermark(timestamp_ms=4), None]
    operator.on_batch(3, 3)
    assert operator.emit() is None


def test_an_assigner_forwards_only_the_final_watermark_and_only_once() -> None:
    operator = TimestampsAndWatermarks(lambda: BoundedOutOfOrdernessWatermarks(0))
    end = Watermark(timestamp_ms=WATERMARK_MAX)

    said = [operator.on_watermark(each) for each in (Watermark(timestamp_ms=10), end, end)]

    assert said == [None, end, None]
    operator.on_batch(20, 20)
    assert operator.emit() is None


def generator_vertex(
    delay_ms: int | None, handler: MonotonyViolationHandler = IGNORE, *, punctuated: bool = False
) -> JobVertex:
    return JobVertex(
        vertex_id=JobVertexId("v"),
        name="source",
        operators=(),
        parallelism=1,
        max_parallelism=128,
        watermark_delay_ms=delay_ms,
        on_monotony_violation=handler,
        punctuated_watermarks=punctuated,
    )


def test_a_vertex_has_the_watermark_generator_of_its_source() -> None:
    generators = [
        watermark_generator(each)
        for each in (
            generator_vertex(None),
            generator_vertex(7),
            generator_vertex(0),
            generator_vertex(0, LOG),
            generator_vertex(0, punctuated=True),
        )
    ]

    assert [type(generator) for generator in generators] == [
        NoWatermarks,
        BoundedOutOfOrdernessWatermarks,
        BoundedOutOfOrdernessWatermarks,
        AscendingTimestampsWatermarks,
        PunctuatedWatermarks,
    ]


TIMES = st.integers(WATERMARK_MIN, WATERMARK_MAX)


@given(times=st.lists(TIMES, max_size=20), delay_ms=st.integers(0, 1000))
def test_rows_within_the_bound_never_arrive_at_or_below_the_watermark(times: list[int], delay_ms: int) -> None:
    generator = BoundedOutOfOrdernessWatermarks(delay_ms)
    latest_ms = WATERMARK_MIN

    for time_ms in times:
        before_ms = generator.watermark_ms
        on_time = time_ms > latest_ms - delay_ms - 1 and time_ms > WATERMARK_MIN
        assert not on_time or time_ms > before_ms
        generator.on_batch(time_ms, time_ms)
        latest_ms = max(latest_ms, time_ms)
        assert before_ms <= generator.watermark_ms <= WATERMARK_MAX


def partition(name: str, latest_ms: int | None = None, earliest_ms: int | None = None) -> PartitionTime:
    return PartitionTime(partition=name, latest_ms=latest_ms, earliest_ms=earliest_ms)


def of_partitions(idle_timeout_ms: int | None = None) -> TimestampsAndWatermarks:
    return TimestampsAndWatermarks(lambda: BoundedOutOfOrdernessWatermarks(0), idle_timeout_ms)


def test_the_watermark_of_a_source_is_the_minimum_of_its_partitions() -> None:
    operator = of_partitions()

    said = []
    for times in ((("a", 100), ("b", 20)), (("a", 200), ("b", None)), (("b", 150),)):
        operator.on_partitions([partition(*time) for time in times], now=0)
        said.append(operator.emit())

    assert said == [Watermark(timestamp_ms=19), None, Watermark(timestamp_ms=149)]


def test_a_partition_without_rows_holds_event_time_back_until_it_is_idle() -> None:
    operator = of_partitions(idle_timeout_ms=1000)
    said = []
    for now, latest in ((0, 100), (999, 200), (1000, 300)):
        operator.on_partitions([partition("a", latest), partition("b")], now)
        said.append(operator.emit())

    assert said == [None, None, Watermark(timestamp_ms=299)]


def test_a_partition_that_becomes_active_never_moves_the_watermark_back() -> None:
    operator = of_partitions(idle_timeout_ms=1000)
    operator.on_partitions([partition("a", 100), partition("b")], 0)
    operator.on_partitions([partition("a", 300), partition("b")], 2000)
    first = operator.emit()

    operator.on_partitions([partition("a", 900), partition("b", 50)], 2001)
    second = operator.emit()
    operator.on_partitions([partition("a"), partition("b", 600)], 2002)

    assert (first, second, operator.emit()) == (Watermark(timestamp_ms=299), None, Watermark(timestamp_ms=599))


def test_time_can_go_back_only_within_a_partition() -> None:
    operator = TimestampsAndWatermarks(lambda: AscendingTimestampsWatermarks(MonotonyViolationHandler.FAIL))

    fine = operator.on_partitions([partition("a", 100, 90), partition("b", 50, 10)], 0)
    violated = operator.on_partitions([partition("a", 200, 150), partition("b", 60, 40)], 0)

    assert fine is None
    assert violated is not None
    assert (violated.timestamp_ms, violated.latest_ms) == (40, 50)
