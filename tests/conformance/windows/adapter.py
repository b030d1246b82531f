"""Area 08: translates the cases about windows; cases about watermarks have a separate adapter."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.time_windows import TumblingEventTimeWindows
from flykka.spark_bridge.functions.windowing.window_operator import MergingWindowSet
from flykka.spark_bridge.functions.windowing.windows import TimeWindow
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.watermarks import adapter as watermarks
from tests.conformance.windows import operator_case, trigger_case
from tests.conformance.windows.words import Clock, assigner

ASSIGNER_WORDS = {"assigner", "time", "size_ms", "slide_ms", "offset_ms", "gap_ms"}


def run_case(case: Case) -> None:
    match case["given"]["kind"]:
        case "assign":
            _run_assign(case)
        case "window_start":
            _run_window_start(case)
        case "merge":
            _run_merge(case)
        case "merging_set":
            _run_merging_set(case)
        case "trigger":
            trigger_case.run_case(case)
        case "window_operator":
            operator_case.run_case(case)
        case _:
            watermarks.run_case(case)


def _run_assign(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", *ASSIGNER_WORDS})
    only_known_words("expect", expect, {"windows", "construction_error"})
    if expect.get("construction_error"):
        with pytest.raises(DurationError):
            assigner(given)
        return
    made = assigner(given)
    for timestamp, windows in expect["windows"]:
        now_ms = timestamp if given["time"] == "processing" else -1
        at_ms = timestamp if given["time"] == "event" else -1
        assigned = made.assign_windows({}, at_ms, Clock(now_ms))
        assert sorted(map(list, assigned)) == sorted(windows)


def _run_window_start(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, {"kind", "size_ms", "offset_ms"})
    only_known_words("expect", case["expect"], {"starts"})
    windows = TumblingEventTimeWindows.of(given["size_ms"], given["offset_ms"])
    for timestamp, start in case["expect"]["starts"]:
        (window,) = windows.assign_windows({}, timestamp, Clock(-1))
        assert window.start == start


def _run_merge(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "windows"})
    only_known_words("expect", case["expect"], {"merges"})
    sessions = EventTimeSessionWindows.with_gap(1)
    merges = sessions.merge_windows(TimeWindow(*each) for each in case["given"]["windows"])
    said = [[list(result), sorted(map(list, parts))] for result, parts in merges]
    assert sorted(said) == sorted([result, sorted(parts)] for result, parts in case["expect"]["merges"])


def _run_merging_set(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "gap_ms"})
    windows = MergingWindowSet({}, EventTimeSessionWindows.with_gap(case["given"]["gap_ms"]).merge_windows)
    for number, step in enumerate(case["steps"]):
        try:
            _merging_step(windows, step)
        except AssertionError as wrong:
            raise AssertionError(f"step {number}, {step}: {wrong}") from wrong


def _merging_step(windows: MergingWindowSet, step: dict[str, Any]) -> None:
    known = {"add", "becomes", "merged_from", "state_window", "state_window_one_of", "retire", "want"}
    only_known_words("step", step, known)
    match step:
        case {"add": added}:
            actual, merges = windows.add_window(TimeWindow(*added))
            state_window = windows.get_state_window(actual)
            merged = [list(window) for merge in merges for window in merge.merged]
            assert state_window is not None
            assert list(actual) == step["becomes"]
            assert sorted(merged) == sorted(step["merged_from"])
            assert list(state_window) == step.get("state_window", list(state_window))
            assert list(state_window) in step.get("state_window_one_of", [list(state_window)])
        case {"retire": retired}:
            windows.retire_window(TimeWindow(*retired))
        case _:
            raise UnknownWordError(f"step: {step}")
    only_known_words("want", step.get("want", {}), {"state_window_of"})
    for text, expected in step.get("want", {}).get("state_window_of", {}).items():
        there = windows.get_state_window(TimeWindow(*map(int, text.split("-"))))
        assert expected == (None if there is None else list(there))
