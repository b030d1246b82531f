"""Tests the window operator against a simple model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.time_windows import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner, WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import Combination, Reduced
from flykka.spark_bridge.functions.windowing.windows import TimeWindow
from tests.spark_bridge.functions.state_table import Row
from tests.spark_bridge.functions.windowing.operators import (
    SUM,
    Late,
    emitted_values,
    summed,
    window_row,
    windowed_table,
)


@dataclass
class Session:
    """A window of the model, and the sum of the numbers of its rows."""

    window: TimeWindow
    total: int


@dataclass
class Model:
    """Event-time windows in plain lists, which fire at their end and with every late row."""

    assigner: WindowAssigner
    lateness: int
    watermark: int = WATERMARK_MIN
    late: list[Row] = field(default_factory=list)
    sessions: dict[str, list[Session]] = field(default_factory=lambda: defaultdict(list))

    def process(self, row: Row) -> list[Any]:
        fired = []
        skipped = True
        for window in self.assigner.assign_windows(row, row["time"], self):
            assert isinstance(window, TimeWindow)
            of_key = self.sessions[row["key"]]
            merged = Session(window, row["n"])
            joins = [each for each in of_key if self._joins(each.window, window)]
            for each in joins:
                merged = Session(merged.window.cover(each.window), merged.total + each.total)
            if merged.window.max_timestamp() + self.lateness <= self.watermark:
                continue
            skipped = False
            self.sessions[row["key"]] = [*(each for each in of_key if each not in joins), merged]
            if merged.window.max_timestamp() <= self.watermark:
                fired.append((row["key"], merged.window, (merged.total,)))
        if skipped and row["time"] + self.lateness <= self.watermark:
            self.late.append(row)
        return fired

    def advance(self, watermark: int) -> list[Any]:
        fired = [
            (key, each.window, (each.total,))
            for key, sessions in self.sessions.items()
            for each in sessions
            if self.watermark < each.window.max_timestamp() <= watermark
        ]
        self.watermark = watermark
        for key, sessions in self.sessions.items():
            self.sessions[key] = [each for each in sessions if each.window.max_timestamp() + self.lateness > watermark]
        return fired

    def get_current_processing_time(self) -> int:
        return 0

    def _joins(self, there: TimeWindow, window: TimeWindow) -> bool:
        if isinstance(self.assigner, MergingWindowAssigner):
            return there.intersects(window)
        return there == window


ASSIGNERS: dict[str, WindowAssigner] = {
    "tumbling": TumblingEventTimeWindows.of(10, 3),
    "sliding": SlidingEventTimeWindows.of(10, 4),
    "gaps": SlidingEventTimeWindows.of(3, 7),
    "sessions": EventTimeSessionWindows.with_gap(5),
    "dynamic": EventTimeSessionWindows.with_dynamic_gap(lambda row: row["n"]),
}
FUNCTIONS: dict[str, tuple[Combination, CountEvictor | None]] = {
    "aggregate": (SUM, None),
    "reduce": (Reduced(summed), None),
    "evictor": (SUM, CountEvictor.of(1000)),
}
ROWS = st.lists(st.builds(window_row, st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 9)), max_size=6)
STEPS = st.lists(st.tuples(ROWS, st.integers(0, 25)), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assigner", "combination", "evictor"),
    [
        # All window types with one function, and all functions with overlapping and with merging windows.
        pytest.param(
            assigner,
            *function,
            id=f"{windows}-{name}",
            marks=() if name == "aggregate" or windows in ("sliding", "sessions") else pytest.mark.long,
        )
        for windows, assigner in ASSIGNERS.items()
        for name, function in FUNCTIONS.items()
    ],
)
@settings(max_examples=20)
@given(STEPS, st.sampled_from([0, 4, 20]))
def test_windows_fire_as_in_the_model(
    assigner: WindowAssigner,
    evictor: CountEvictor | None,
    combination: Combination,
    steps: list[tuple[list[Row], int]],
    lateness: int,
) -> None:
    table = windowed_table(
        assigner, combination=combination, evictor=evictor, allowed_lateness_ms=lateness, late_data_tag=Late()
    )
    model = Model(assigner, lateness)
    watermark = 0

    for rows, advance in [*steps, ([], 10_000)]:
        expected = [each for one in rows for each in model.process(one)]
        assert emitted_values(table.process(*rows) if rows else []) == expected
        watermark += advance
        assert sorted(emitted_values(table.advance_watermark(watermark))) == sorted(model.advance(watermark))

    assert table.side.get("late", []) == model.late
    assert table.entries == {}
