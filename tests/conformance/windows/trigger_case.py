"""A trigger that is called as a window operator calls it, with the timers and states of a runner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flykka.spark_bridge.functions.contexts import KeyedContext, TimerContext
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.trigger_context import WindowTriggerContext
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, window_of
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.windows.words import trigger_of_case
from tests.spark_bridge.functions.state_table import Row, StateTable

TIMERS = "window_event_timers"


class TriggerOperator(KeyedProcessFunction):
    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self._context = WindowTriggerContext(self._trigger, runtime_context)

    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        context = self._context
        context.bind(ctx.timer_service())
        match row["step"]:
            case {"element": window}:
                context.window = TimeWindow(*window)
                yield {"result": context.on_element({}, ctx.timestamp()).name}
            case {"merge": merged, "into": result}:
                context.window = TimeWindow(*result)
                context.on_merge([TimeWindow(*each) for each in merged])
            case {"clear": window}:
                context.window = TimeWindow(*window)
                context.clear()
            case other:
                raise UnknownWordError(f"step: {other}")

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        context = self._context
        context.bind(ctx.timer_service())
        for name in context.event_timers.due(timestamp):
            context.window = window_of(name)
            context.event_timers.fired(timestamp)
            if context.on_timer(timestamp, ctx.time_domain()).is_fire():
                yield {"fired": list(window_of(name))}


def run_case(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, {"kind", "trigger", "n", "interval_ms", "inner_returns"})
    only_known_words("expect", case["expect"], {"all_wants_hold"})
    table = StateTable(TriggerOperator(trigger_of_case(given)))
    for number, step in enumerate(case["steps"]):
        only_known_words("step", step, {"element", "result", "watermark", "fires", "merge", "into", "clear", "want"})
        where = f"step {number}, {step}"
        if "watermark" in step:
            fired = [row["fired"] for row in table.advance_watermark(step["watermark"])]
            assert sorted(fired) == sorted(step["fires"]), where
        else:
            said = table.process({"key": "key", "step": step, "time": 0})
            assert said == ([{"result": step["result"]}] if "result" in step else []), where
        _check_want(table, step.get("want", {}), where)


def _check_want(table: StateTable, want: dict[str, Any], where: str) -> None:
    only_known_words("want", want, {"event_timers", "state_entries"})
    timers = dict(table.state(TIMERS).get("key", ()))
    for text, number in want.get("event_timers", {}).items():
        assert len(timers.get(text.replace("-", "/"), ())) == number, where
    of_triggers = [each.name for each in table.runner.descriptors if not each.name.startswith("window_")]
    entries = sum(len(table.state(name).get("key", ())) for name in of_triggers)
    assert entries == want.get("state_entries", entries), where
