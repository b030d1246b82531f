"""Area 01, component `request_gate`: which requests start, wait or are dropped."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint, for_savepoint
from flykka.actors.machines.checkpoint.request_decider import (
    CheckpointLoad,
    CheckpointRequestDecider,
    CheckpointTriggerRequest,
    RequestDecision,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.words import reason

NOW = 2**40
"""A time after any pause."""

LOADS = {"pending", "cleaning", "triggering", "since_last_completion_ms"}
GIVEN = {"component", "max_pending", "max_queued", "min_pause_ms", "requests"} | LOADS


def run_case(case: Case) -> None:
    gate = _Gate(case["given"])
    for step in case["steps"]:
        only_known_words("step", step, {"do", "request", "want", "ms"} | LOADS)
        gate.do(step)
        gate.check(step.get("want", {}))
    gate.check(case["expect"])


class _Gate:
    def __init__(self, given: dict[str, Any]) -> None:
        only_known_words("given", given, GIVEN)
        self._given = given
        self._decider = CheckpointRequestDecider(
            max_concurrent=given["max_pending"],
            min_pause_ms=given["min_pause_ms"],
            max_queued=given.get("max_queued", 1_000),
        )
        self._load = {word: given.get(word, 0) for word in ("pending", "cleaning")}
        self._triggering = given.get("triggering", False)
        self._now = NOW
        self._chosen: str | None = None
        self._retry_ms: int | None = None
        self._dropped: dict[str, CheckpointDeclineReason] = {}
        self._open: list[str] = []
        self._named: dict[int, str] = {}
        if "since_last_completion_ms" in given:
            self._decider.completed(NOW - given["since_last_completion_ms"])

    def do(self, step: dict[str, Any]) -> None:
        match step["do"]:
            case "offer":
                name = step["request"]
                self._open.append(name)
                load = self._under(step)
                self._follow(self._decider.offer(self._request(name), load, self._now))
            case "poll":
                load = self._under(step)
                self._follow(self._decider.poll(load, self._now))
            case "set":
                self._under({word: value for word, value in step.items() if word != "do"}, stays=True)
            case "advance":
                self._now += step["ms"]
            case word:
                raise UnknownWordError(word)

    def check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word, value) == value, word

    def _under(self, step: dict[str, Any], *, stays: bool = False) -> CheckpointLoad:
        self._load |= {word: step[word] for word in ("pending", "cleaning") if word in step}
        if "since_last_completion_ms" in step:
            self._decider.completed(self._now - step["since_last_completion_ms"])
        triggering = step.get("triggering", self._triggering)
        if stays:
            self._triggering = triggering
        return CheckpointLoad(**self._load, is_triggering=triggering)

    def _request(self, name: str) -> CheckpointTriggerRequest:
        given = self._given["requests"][name]
        only_known_words(name, given, {"kind", "periodic", "forced", "timestamp_ms"})
        number = len(self._named)
        self._named[number] = name
        return CheckpointTriggerRequest(
            properties=_properties(given),
            timestamp_ms=given.get("timestamp_ms", self._now),
            number=number,
            is_periodic=given["periodic"],
        )

    def _follow(self, decision: RequestDecision) -> None:
        self._retry_ms = decision.retry_ms
        self._chosen = None if decision.chosen is None else self._named[decision.chosen.number]
        if self._chosen is not None:
            self._open.remove(self._chosen)
        for request, why in decision.dropped:
            name = self._named[request.number]
            self._dropped[name] = why
            self._open.remove(name)

    def _shows(self, word: str, value: Any) -> Any:
        match word:
            case "all_wants_hold":
                return True
            case "chosen":
                return self._chosen
            case "dropped":
                return {name: why if self._dropped.get(name) == reason(why) else None for name, why in value.items()}
            case "failed_requests":
                return len(self._dropped)
            case "failed_with":
                assert set(self._dropped.values()) == {reason(value)}
                return value
            case "still_open":
                return [name for name in value if name in self._open]
            case "queued":
                queued = [self._named[request.number] for request in self._decider.queued]
                return len(queued) if isinstance(value, int) else queued
            case "rescheduled_in_ms" | "retry_ms" | "reschedule_ms":
                return self._retry_ms
            case _:
                raise UnknownWordError(word)


def _properties(given: dict[str, Any]) -> CheckpointProperties:
    match given["kind"]:
        case "checkpoint":
            return for_checkpoint(forced=given["forced"])
        case "savepoint":
            return for_savepoint(forced=given["forced"])
        case kind:
            raise UnknownWordError(kind)
