"""Words of area 03 for a strategy: failures, a clock, and the delay of a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from flykka.actors.machines.restart.restart_strategy import RestartStrategy
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

_DRAWS = 1_000


class StrategyCase:
    """A strategy under test, on a clock that starts at 0 ms."""

    def __init__(self, make: Callable[[], RestartStrategy]) -> None:
        self._strategy = make()
        self._now = 0
        self._chance = Random(3)

    def run(self, case: Case) -> None:
        if case["expect"] != {"all_steps_hold": True}:
            raise UnknownWordError(f"expect {case['expect']}")
        for step in case["steps"]:
            match step:
                case ["failure", wanted]:
                    self._fail(wanted)
                case ["advance", int(ms)]:
                    self._now += ms
                case ["backoff", wanted]:
                    self._read_backoff(wanted)
                case unknown:
                    raise UnknownWordError(f"step {unknown}")

    def _fail(self, wanted: Mapping[str, Any]) -> None:
        only_known_words("failure", wanted, {"restart", "asked_times", "delay_at_least_ms"})
        answers = {self._strategy.can_restart(self._now) for _ in range(wanted.get("asked_times", 1))}
        assert answers == {wanted["restart"]}
        if wanted["restart"]:
            self._strategy.restart(self._now)
            assert self._draw() >= wanted.get("delay_at_least_ms", 0)

    def _read_backoff(self, wanted: Mapping[str, Any]) -> None:
        only_known_words("backoff", wanted, {"is", "at_most", "exactly_these_in_1000_draws"})
        drawn = {self._draw() for _ in range(_DRAWS)}
        if "is" in wanted:
            assert drawn == {wanted["is"]}
        if "at_most" in wanted:
            assert max(drawn) <= wanted["at_most"]
        if "exactly_these_in_1000_draws" in wanted:
            assert sorted(drawn) == wanted["exactly_these_in_1000_draws"]

    def _draw(self) -> int:
        return self._strategy.backoff.drawn(self._chance.random())
