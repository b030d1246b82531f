"""A bug in any real machine is exposed in simulation. Without the bug, the same runs violate no law."""

from __future__ import annotations

import pytest

from flykka.simulation.shrink import violations_of
from tests.flykka.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

SEEDS = 500
SOME = (
    "a_batch_is_released_before_it_is_read",
    "a_commit_is_reported_before_it_is_done",
    "a_join_drops_rows_too_early",
    "a_snapshot_does_not_wait_for_the_last_channel",
    "the_watermark_is_the_maximum_of_the_inputs",
    "a_finished_attempt_releases_its_sent_batches",
    "credit_is_announced_twice",
    "ended_sessions_are_accepted",
    "state_of_an_aborted_checkpoint_is_not_deleted",
    "output_staged_before_a_barrier_is_not_in_its_checkpoint",
)
"""One bug in each kind of machine that few runs expose; the others need long runs."""


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
