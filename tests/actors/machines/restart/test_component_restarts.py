"""A component that ends is started again: at once, then with a growing pause, and at last not at all."""

from __future__ import annotations

from flykka.actors.machines.restart.component_restarts import (
    FORGIVEN_AFTER_MS,
    MAX_ENDS,
    PAUSE_MS_MAX,
    ComponentEffect,
    ComponentEnded,
    ComponentRestarts,
    ComponentStarted,
    GiveUpCluster,
    StartComponent,
)
from tests.actors.machines.scheduling.feeding import feed


def ends(restarts: ComponentRestarts, times: int, *, after_ms: int = 0, name: str = "a") -> list[ComponentEffect]:
    """It is started and ends so many times in a row, each time so long behind its start."""
    effects: list[ComponentEffect] = []
    for _ in range(times):
        feed(restarts, ComponentStarted(component=name), now=0)
        effects += feed(restarts, ComponentEnded(component=name), now=after_ms)
    return effects


def test_the_first_end_is_answered_at_once() -> None:
    assert ends(ComponentRestarts(), 1) == [StartComponent(component="a", delay_ms=0)]


def test_the_pause_grows_up_to_a_limit() -> None:
    delays = [
        effect.delay_ms for effect in ends(ComponentRestarts(), MAX_ENDS - 1) if isinstance(effect, StartComponent)
    ]

    assert delays == [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, PAUSE_MS_MAX]


def test_the_cluster_is_given_up_when_it_ends_too_often() -> None:
    assert ends(ComponentRestarts(), MAX_ENDS)[-1] == GiveUpCluster(component="a", ends=MAX_ENDS)


def test_who_has_lived_for_a_while_is_forgiven() -> None:
    restarts = ComponentRestarts()
    ends(restarts, MAX_ENDS - 1)

    assert ends(restarts, 1, after_ms=FORGIVEN_AFTER_MS) == [StartComponent(component="a", delay_ms=0)]


def test_components_are_counted_one_by_one() -> None:
    restarts = ComponentRestarts()
    ends(restarts, MAX_ENDS - 1)

    assert ends(restarts, 1, name="b") == [StartComponent(component="b", delay_ms=0)]
