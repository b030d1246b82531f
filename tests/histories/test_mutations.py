"""A one-line change of behaviour in any machine makes a golden trace diverge, and the report points to the line."""

from __future__ import annotations

import pytest

from flykka.replay.replayer import Replayer
from tests.histories.mutations import MUTATIONS
from tests.histories.planting import Mutation, planted
from tests.histories.record import FOLDER


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation",
    [pytest.param(each, marks=pytest.mark.long if number % 4 else ()) for number, each in enumerate(MUTATIONS)],
    ids=str,
)
def test_a_changed_line_diverges_and_the_report_names_turn_effect_and_cause(mutation: Mutation) -> None:
    trace = FOLDER / f"{mutation.history}.trace"
    with planted(mutation):
        divergence = Replayer().replay(trace).divergence

    assert divergence is not None, f"{mutation.history} does not tell"
    text = divergence.text()
    assert text.startswith(f"DIVERGENCE at turn {divergence.turn.sequence}  {divergence.turn.recipient.path} <- ")
    assert divergence.expected or divergence.actual or divergence.fields
    assert "caused by" in text
    assert f"flykka debug {trace} --until {divergence.turn.sequence}" in text


def test_mutations_change_at_least_thirty_machines() -> None:
    assert len({mutation.where.partition(":")[0] for mutation in MUTATIONS}) >= 30
