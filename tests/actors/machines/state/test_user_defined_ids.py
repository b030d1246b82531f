"""State that was stored under a former id of its operator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import StateWithoutOperatorError
from flykka.actors.machines.state.assignment import assign, under_current_ids
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.wire.ids import JobVertexId, OperatorId
from tests.actors.machines.state.test_assignment import chained_vertex, checkpoint_of_subtasks, keyed_state

STORED = checkpoint_of_subtasks(
    (keyed_state("of-the-structure", "s1"),), (keyed_state("of-the-structure", "s2", subtask=1),)
)


def vertex_stored_as(stored_as: str) -> JobVertex:
    plain = chained_vertex("v", "counts")
    (operator,) = plain.operators
    return replace(plain, operators=(replace(operator, user_defined_operator_id=OperatorId(stored_as)),))


def test_state_is_found_under_a_user_defined_id() -> None:
    assigned = assign(STORED, [vertex_stored_as("of-the-structure")])

    first = assigned.states[JobVertexId("v"), 0]
    assert [state.operator_id for state in first.operators] == ["counts"]
    assert [handle.state_id for handle in first.operators[0].shared] == ["s1"]


def test_an_id_unknown_to_the_checkpoint_is_ignored() -> None:
    later = under_current_ids(STORED, [vertex_stored_as("of-the-structure")])

    assert under_current_ids(later, [vertex_stored_as("of-the-structure")]) == later
    with pytest.raises(StateWithoutOperatorError, match="of-the-structure"):
        assign(STORED, [vertex_stored_as("another")])


def test_the_state_of_a_coordinator_moves_with_its_operator() -> None:
    stored = checkpoint_of_subtasks(coordinators=("of-the-structure",))

    plain = vertex_stored_as("of-the-structure")
    coordinated = replace(plain, operators=(replace(plain.operators[0], has_coordinator=True),))

    assigned = assign(stored, [coordinated])

    assert [state.operator_id for state in assigned.coordinators] == ["counts"]


def test_coordinator_state_is_dropped_if_its_operator_has_no_coordinator() -> None:
    stored = checkpoint_of_subtasks(coordinators=("of-the-structure",))

    with pytest.raises(StateWithoutOperatorError, match="of their coordinators, that the job does not have: counts"):
        assign(stored, [vertex_stored_as("of-the-structure")])
