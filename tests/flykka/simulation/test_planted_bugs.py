"""A mistake in any of the real machines comes to light in simulation; without it, the same runs break no law."""

from __future__ import annotations

import pytest

from flykka.simulation.shrink import violations_of
from tests.flykka.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

SEEDS = 500
LONG = (
    "an_aborted_checkpoint_takes_its_output_with_it",
    "an_aligned_source_reads_on",
    "rows_that_have_met_none_are_told_with_each_watermark",
    "the_state_is_noted_before_what_fires_with_it_has_left_it",
    "shared_state_goes_with_the_first_checkpoint_that_refers_to_it",
    "what_is_in_flight_on_the_other_inputs_is_no_state",
)
"""They come to light after many runs: these take as long as all others."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.long if str(bug) in LONG else ()) for bug in PLANTED_BUGS], ids=str
)
def test_a_planted_bug_is_found(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        bug.plant(patch)
        found = next((scenario, said) for scenario in bug.scenarios(SEEDS) if (said := violations_of(scenario)))

    scenario, violations = found
    assert violations[0].monitor == bug.monitor
    assert bug.says in violations[0].text
    assert violations_of(scenario) == ()
