"""The window operator with keyed state and timers, which a step may write and read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner, WindowAssignerContext
from flykka.spark_bridge.functions.windowing.window_contents import Reduced
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowContext, ProcessWindowFunction
from flykka.spark_bridge.functions.windowing.window_operator import Windowing, WindowOperator
from flykka.spark_bridge.functions.windowing.windows import TimeWindow
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.windows.words import assigner, trigger_of_case
from tests.spark_bridge.functions.state_table import StateTable


@dataclass(frozen=True)
class Late:
    id: str = "late"


class Sums(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Row]) -> Iterator[Row]:
        (row,) = elements
        yield {"result": [key, row["value"], context.window().max_timestamp(), list(context.window())]}


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSessions(EventTimeSessionWindows):
    """Sessions in which rows of one value have no length."""

    point_if: int

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> list[TimeWindow]:
        if element["value"] == self.point_if:
            return [TimeWindow(timestamp, timestamp)]
        # The dataclass decorator with slots replaces the class, so that `super()` would find the wrong class.
        return list(EventTimeSessionWindows.assign_windows(self, element, timestamp, context))


def run_case(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, {"kind", "window", "trigger", "allowed_lateness_ms", "aggregate"})
    only_known_words("expect", case["expect"], {"late_output"})
    table = StateTable(WindowOperator(_windowing(given)))
    late: list[Any] = []
    for number, step in enumerate(case["steps"]):
        only_known_words("step", step, STEPS)
        output, diverted = _apply_step(table, step)
        where = f"step {number}, {step}: {output}"
        expected = step.get("output", [])
        shown = [full[: len(want)] for full, want in zip(_sorted(output), _sorted(expected), strict=False)]
        assert len(output) == len(expected), where
        assert shown == _sorted(expected), where
        assert diverted == step.get("late_output", []), where
        late += diverted
    assert late == case["expect"]["late_output"]


STEPS = {"element", "watermark", "processing_time", "snapshot_and_restore", "output", "late_output"}


def _apply_step(table: StateTable, step: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    match step:
        case {"element": [key, value, timestamp]}:
            rows = table.process({"key": key, "value": value, "time": timestamp})
        case {"watermark": watermark_ms}:
            rows = table.advance_watermark(watermark_ms)
        case {"processing_time": now_ms}:
            rows = table.advance_processing_time(now_ms)
        case {"snapshot_and_restore": True}:
            # The table does this in each step anyway: all stored values have passed through Arrow.
            rows = []
        case other:
            raise UnknownWordError(f"step: {other}")
    late = [list(map(row.get, ("key", "value", "time"))) for row in table.side.pop("late", [])]
    return list(map(itemgetter("result"), rows)), late


def _windowing(given: dict[str, Any]) -> Windowing:
    window = given["window"]
    only_known_words("window", window, {"assigner", "time", "size_ms", "gap_ms", "point_if_value"})
    only_known_words("trigger", given["trigger"], {"trigger", "n", "interval_ms", "purging"})
    if given["aggregate"] != "sum":
        raise UnknownWordError(f"aggregate: {given['aggregate']}")
    return Windowing(
        assigner=_assigner(window),
        function=Sums(),
        row_type="struct<key:string,value:bigint,time:bigint>",
        combination=Reduced(lambda one, two: {**one, "value": one["value"] + two["value"]}),
        trigger=trigger_of_case(given["trigger"]),
        allowed_lateness_ms=given["allowed_lateness_ms"],
        late_data_tag=Late(),
    )


def _assigner(window: dict[str, Any]) -> WindowAssigner:
    if "point_if_value" not in window:
        return assigner(window)
    return PointSessions(gap_ms=window["gap_ms"], point_if=window["point_if_value"])


def _sorted(results: list[Any]) -> list[Any]:
    return sorted(results, key=lambda result: result[:3])
