"""A bug in any real machine is exposed in simulation; without it, the same runs violate no law."""

from __future__ import annotations

import pytest

from flykka.simulation.shrink import violations_of
from tests.flykka.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

SEEDS = 500
SOME = (
    "a_batch_is_released_before_it_is_read",
    "a_commit_is_reported_before_it_is_done",
    "a_join_lets_go_of_rows_when_event_time_has_passed_them",
    "a_snapshot_does_not_wait_for_the_last_channel",
    "a_watermark_is_that_of_the_faster_input",
    "an_attempt_that_has_finished_takes_back_what_it_has_sent",
    "credit_is_given_twice",
    "nobody_looks_whose_session_it_is",
    "the_state_of_a_declined_checkpoint_is_kept",
    "what_was_staged_before_a_barrier_belongs_to_the_next_one",
)
"""One bug of each kind of machine that few runs expose; the others need long runs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=() if str(bug) in SOME else pytest.mark.long) for bug in PLANTED_BUGS], ids=str
)
def test_a_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        bug.plant(patch)
        found = next((scenario, said) for scenario in bug.scenarios(SEEDS) if (said := violations_of(scenario)))

    scenario, violations = found
    assert violations[0].monitor == bug.monitor
    assert bug.says in violations[0].text
    assert violations_of(scenario) == ()
