"""Creates the assigners and triggers that the cases name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.session_windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
)
from flykka.spark_bridge.functions.windowing.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flykka.spark_bridge.functions.windowing.trigger import Trigger, TriggerContext, TriggerResult
from flykka.spark_bridge.functions.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
from flykka.spark_bridge.functions.windowing.windows import Window
from tests.conformance.case_files import UnknownWordError


@dataclass(frozen=True)
class Clock:
    now_ms: int

    def get_current_processing_time(self) -> int:
        return self.now_ms


def assigner(given: dict[str, Any]) -> WindowAssigner:
    """Return the assigner of a case. Raises `DurationError` if its parameters are invalid."""
    is_event_time = {"event": True, "processing": False}[given.get("time", "event")]
    offset = given.get("offset_ms", 0)
    match given["assigner"]:
        case "tumbling":
            tumbling = TumblingEventTimeWindows if is_event_time else TumblingProcessingTimeWindows
            return tumbling.of(given["size_ms"], offset)
        case "sliding":
            sliding = SlidingEventTimeWindows if is_event_time else SlidingProcessingTimeWindows
            return sliding.of(given["size_ms"], given["slide_ms"], offset)
        case "session":
            sessions = EventTimeSessionWindows if is_event_time else ProcessingTimeSessionWindows
            if given["gap_ms"] == "dynamic":
                return sessions.with_dynamic_gap(_gap_of_the_note)
            return sessions.with_gap(given["gap_ms"])
        case "global":
            return GlobalWindows.create()
        case other:
            raise UnknownWordError(f"assigner: {other}")


def _gap_of_the_note(row: Row) -> int:
    """Return the gap that the case's note states: 3000 for key1; for key2 1000 if the value is 10, otherwise 2000."""
    if row["key"] == "key1":
        return 3000
    return 1000 if row["value"] == 10 else 2000


def trigger_of_case(given: dict[str, Any]) -> Trigger:
    made = _plain_trigger(given)
    return PurgingTrigger.of(made) if given.get("purging") else made


def _plain_trigger(given: dict[str, Any]) -> Trigger:
    match given["trigger"]:
        case "event-time":
            return EventTimeTrigger.create()
        case "processing-time":
            return ProcessingTimeTrigger.create()
        case "count":
            return CountTrigger.of(given["n"])
        case "continuous-event-time":
            return ContinuousEventTimeTrigger.of(given["interval_ms"])
        case "purging":
            return PurgingTrigger.of(_Always(TriggerResult[given["inner_returns"]]))
        case other:
            raise UnknownWordError(f"trigger: {other}")


class _Always(Trigger):
    def __init__(self, answer: TriggerResult) -> None:
        self._answer = answer

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._answer

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._answer

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._answer

    def clear(self, window: Window, ctx: TriggerContext) -> None: ...
