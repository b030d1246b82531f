"""A component that ends is restarted at once, later after increasing delays, and finally not at all."""

from __future__ import annotations

from flykka.actors.machines.restart.component_restarts import (
    FORGIVEN_AFTER_MS,
    MAX_ENDS,
    PAUSE_MS_MAX,
    ComponentRestarts,
)


def delays(restarts: ComponentRestarts, times: int, *, after_ms: int = 0, name: str = "a") -> list[int | None]:
    answers: list[int | None] = []
    for _ in range(times):
        restarts.started(name, 0)
        answers.append(restarts.ended(name, after_ms))
    return answers


def test_the_first_restart_is_immediate() -> None:
    assert delays(ComponentRestarts(), 1) == [0]


def test_the_restart_delay_grows_up_to_a_limit() -> None:
    grown = delays(ComponentRestarts(), MAX_ENDS - 1)

    assert grown == [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, PAUSE_MS_MAX]


def test_the_cluster_is_abandoned_if_components_end_too_often() -> None:
    assert delays(ComponentRestarts(), MAX_ENDS)[-1] is None


def test_a_component_that_ran_long_enough_restarts_at_once() -> None:
    restarts = ComponentRestarts()
    delays(restarts, MAX_ENDS - 1)

    assert delays(restarts, 1, after_ms=FORGIVEN_AFTER_MS) == [0]


def test_ends_are_counted_separately_for_each_component() -> None:
    restarts = ComponentRestarts()
    delays(restarts, MAX_ENDS - 1)

    assert delays(restarts, 1, name="b") == [0]
