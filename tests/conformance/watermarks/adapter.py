"""Translates the cases of area 08 into steps of the watermark valve and the generators."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.machines.exchange.watermarks import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarks,
    PunctuatedWatermarks,
    TimestampsAndWatermarks,
    WatermarkGenerator,
    WatermarkValve,
)
from flykka.messages.graph.job_graph import MonotonyViolationHandler
from flykka.messages.tasks.exchange import Watermark, WatermarkStatus
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

STATUS = {"idle": True, "active": False}
HANDLERS = {
    "ignore": MonotonyViolationHandler.IGNORE,
    "log": MonotonyViolationHandler.LOG,
    "fail": MonotonyViolationHandler.FAIL,
}


def run_case(case: Case) -> None:
    match case["given"]:
        case {"kind": "valve"}:
            _run_valve(case)
        case {"kind": "watermark_generator"}:
            _run_generator(case)
        case {"kind": "periodic_operator" | "punctuated_operator"}:
            _run_operator(case)
        case other:
            raise UnknownWordError(f"given: {other}")


# The valve


def _run_valve(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "channels"})
    only_known_words("expect", case["expect"], {"output", "all_wants_hold"})
    valve = WatermarkValve(case["given"]["channels"])
    output: list[Any] = []
    for number, step in enumerate(case["steps"]):
        said = _output_words(_valve_step(valve, step))
        valve.check()
        output += said
        assert said == step.get("output", said), f"step {number}, {step}: {said}"
    assert output == case["expect"].get("output", output)


def _valve_step(valve: WatermarkValve, step: dict[str, Any]) -> list[Watermark | WatermarkStatus]:
    only_known_words("step", step, {"watermark", "status", "channel", "output"})
    match step:
        case {"watermark": timestamp_ms, "channel": channel}:
            return valve.on_watermark(channel, Watermark(timestamp_ms=timestamp_ms))
        case {"status": status, "channel": channel}:
            return valve.on_status(channel, WatermarkStatus(idle=STATUS[status]))
        case _:
            raise UnknownWordError(f"step: {step}")


def _output_words(events: list[Watermark | WatermarkStatus]) -> list[list[Any]]:
    names = {idle: name for name, idle in STATUS.items()}
    return [
        ["watermark", event.timestamp_ms] if isinstance(event, Watermark) else [names[event.idle]] for event in events
    ]


# Generators by themselves


def _run_generator(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("expect", expect, {"all_wants_hold", "timestamps_returned", "error_at_step", "construction_error"})
    if expect.get("construction_error"):
        with pytest.raises(ValueError, match="delay of a watermark"):
            _generator(given)
        return
    returned, error_at_step = _feed(_generator(given), case["steps"])
    assert error_at_step == expect.get("error_at_step")
    assert returned == expect.get("timestamps_returned", returned)


def _feed(generator: WatermarkGenerator, steps: list[Any]) -> tuple[list[int], int | None]:
    """Return the timestamps of the accepted elements, and the index of the step that failed."""
    returned: list[int] = []
    for number, step in enumerate(steps):
        match step:
            case ["element", timestamp_ms]:
                violated = generator.on_batch(timestamp_ms, timestamp_ms)
                if violated is not None and violated.is_fatal:
                    return returned, number
                returned.append(timestamp_ms)
            case ["watermark", timestamp_ms]:
                assert generator.watermark_ms == timestamp_ms, f"step {number}: {generator.watermark_ms}"
            case _:
                raise UnknownWordError(f"step: {step}")
    return returned, None


def _generator(given: dict[str, Any]) -> WatermarkGenerator:
    only_known_words("given", given, {"kind", "generator", "bound_ms", "on_violation"})
    match given["generator"]:
        case "bounded-out-of-orderness":
            # The extractor before Flink 1.11 emits max - bound. The strategy since then emits max - delay - 1, so the
            # bound corresponds to a delay that is one millisecond less.
            return BoundedOutOfOrdernessWatermarks(given["bound_ms"] - 1)
        case "ascending":
            # Flink's extractor logs by default.
            return AscendingTimestampsWatermarks(HANDLERS[given.get("on_violation", "log")])
        case other:
            raise UnknownWordError(f"generator: {other}")


# Generators between operators


def _run_operator(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", "watermarks", "interval_ms"})
    only_known_words("expect", expect, {"output", "record_timestamps", "all_wants_hold"})
    harness = _OperatorHarness(given)
    for step in case["steps"]:
        harness.take(step)
    records = [timestamp_ms for kind, timestamp_ms in harness.output if kind == "record"]
    assert harness.output == expect.get("output", harness.output)
    assert records == expect.get("record_timestamps", records)


class _OperatorHarness:
    """Feeds an operator, and collects its output. A periodic operator is called at each interval of processing time."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.output: list[list[Any]] = []
        self._is_periodic = given["kind"] == "periodic_operator"
        self._operator = TimestampsAndWatermarks(lambda: _operator_generator(given))
        self._interval_ms = given.get("interval_ms", 1)
        self._emitted_at_ms = 0

    def take(self, step: list[Any]) -> None:
        match step:
            case ["element", timestamp_ms, *marks] if marks in ([], ["marked"]):
                self.output.append(["record", timestamp_ms])
                if self._is_periodic or marks:
                    self._operator.on_batch(timestamp_ms, timestamp_ms)
                if not self._is_periodic:
                    self._put(self._operator.emit())
            case ["upstream_watermark", timestamp_ms]:
                self._put(self._operator.on_watermark(Watermark(timestamp_ms=timestamp_ms)))
            case ["watermark", timestamp_ms]:
                # The interval passes, and the watermark is emitted then.
                self._put(self._operator.emit())
                assert self.output[-1] == ["watermark", timestamp_ms]
            case ["processing_time", now_ms]:
                if now_ms - self._emitted_at_ms >= self._interval_ms:
                    self._emitted_at_ms = now_ms
                    self._put(self._operator.emit())
            case _:
                raise UnknownWordError(f"step: {step}")

    def _put(self, watermark: Watermark | None) -> None:
        if watermark is not None:
            self.output.append(["watermark", watermark.timestamp_ms])


def _operator_generator(given: dict[str, Any]) -> WatermarkGenerator:
    match given:
        case {"watermarks": "never"}:
            return NoWatermarks()
        case {"watermarks": "last element - 1"}:
            return AscendingTimestampsWatermarks(MonotonyViolationHandler.IGNORE)
        case {"watermarks": word}:
            raise UnknownWordError(f"watermarks: {word}")
        case {"kind": "punctuated_operator"}:
            return PunctuatedWatermarks()
        case _:
            return AscendingTimestampsWatermarks(MonotonyViolationHandler.IGNORE)
