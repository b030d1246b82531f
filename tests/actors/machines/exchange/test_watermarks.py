"""Watermarks of several channels: the minimum, and idleness."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.exchange.watermarks import WatermarkValve
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, Watermark, WatermarkStatus

IDLE = WatermarkStatus(idle=True)
ACTIVE = WatermarkStatus(idle=False)
Said = list[Watermark | WatermarkStatus]


def watermark(timestamp_ms: int) -> Watermark:
    return Watermark(timestamp_ms=timestamp_ms)


def valve_output(valve: WatermarkValve, *inputs: tuple[int, Watermark | WatermarkStatus]) -> list[Said]:
    said = []
    for channel, event in inputs:
        match event:
            case Watermark():
                said.append(valve.on_watermark(channel, event))
            case WatermarkStatus():
                said.append(valve.on_status(channel, event))
        valve.check()
    return said


def test_a_watermark_that_goes_back_is_ignored() -> None:
    valve = WatermarkValve(1)

    assert valve_output(valve, (0, watermark(5)), (0, watermark(5)), (0, watermark(4)), (0, watermark(6))) == [
        [watermark(5)],
        [],
        [],
        [watermark(6)],
    ]


def test_a_channel_that_is_active_again_counts_when_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    valve_output(valve, (0, watermark(10)), (1, IDLE), (1, ACTIVE))

    said = valve_output(
        valve, (0, watermark(20)), (1, watermark(15)), (0, watermark(30)), (1, watermark(25)), (0, watermark(40))
    )

    assert said == [[watermark(20)], [], [watermark(30)], [], [watermark(40)]]
    assert valve_output(valve, (1, watermark(45)), (0, watermark(50))) == [[], [watermark(45)]]


def test_when_all_channels_are_idle_the_valve_emits_the_maximum_watermark() -> None:
    valve = WatermarkValve(2)
    valve_output(valve, (0, watermark(10)), (1, watermark(5)))

    assert valve_output(valve, (0, IDLE), (1, IDLE), (0, ACTIVE)) == [[], [watermark(10), IDLE], [ACTIVE]]


def test_a_lagging_channel_that_becomes_idle_last_emits_no_watermark() -> None:
    valve = WatermarkValve(3)
    valve_output(valve, (0, watermark(10)), (1, watermark(5)), (2, watermark(50)), (1, IDLE), (2, IDLE), (1, ACTIVE))

    assert valve_output(valve, (0, IDLE), (1, IDLE)) == [[], [IDLE]]
    assert valve.watermark_ms == 10


def test_watermarks_of_an_idle_channel_are_ignored() -> None:
    valve = WatermarkValve(2)

    assert valve_output(valve, (0, IDLE), (0, watermark(100)), (1, watermark(5))) == [[], [], [watermark(5)]]


def test_the_final_watermark_passes_when_all_channels_have_reached_it() -> None:
    valve = WatermarkValve(2)

    assert valve_output(valve, (0, watermark(WATERMARK_MAX)), (1, watermark(WATERMARK_MAX))) == [
        [],
        [watermark(WATERMARK_MAX)],
    ]


def test_a_fast_channel_does_not_fill_memory_while_a_slow_one_lags() -> None:
    valve = WatermarkValve(2)
    valve_output(valve, (1, watermark(0)))

    valve_output(valve, *((0, watermark(number)) for number in range(1000)))

    assert len(valve._heap) < 100
    assert valve_output(valve, (1, watermark(2000))) == [[watermark(999)]]


INPUTS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.integers(0, 30).map(watermark), st.booleans().map(lambda idle: WatermarkStatus(idle=idle))),
    ),
    max_size=60,
)


@given(inputs=INPUTS)
def test_the_watermark_never_decreases_and_never_exceeds_an_aligned_channel(
    inputs: list[tuple[int, Watermark | WatermarkStatus]],
) -> None:
    valve = WatermarkValve(4)

    said = [event for events in valve_output(valve, *inputs) for event in events]

    watermarks = [event.timestamp_ms for event in said if isinstance(event, Watermark)]
    statuses = [event.idle for event in said if isinstance(event, WatermarkStatus)]
    assert watermarks == sorted(set(watermarks))
    assert statuses == [index % 2 == 0 for index in range(len(statuses))]


@given(inputs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000).map(watermark)), max_size=80))
def test_without_idleness_the_valve_emits_the_minimum(inputs: list[tuple[int, Watermark]]) -> None:
    valve = WatermarkValve(4)
    highest = [WATERMARK_MIN] * 4

    for channel, watermark in inputs:
        highest[channel] = max(highest[channel], watermark.timestamp_ms)
        valve.on_watermark(channel, watermark)

        assert valve.watermark_ms == min(highest)
