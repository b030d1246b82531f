"""Transition tables are valid, and the diagrams in the documentation are generated from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.actors.machines.states import (
    EXECUTION_MOVES,
    EXECUTION_TERMINAL,
    JOB_MOVES,
    JOB_TERMINAL,
    TASK_MOVES,
    execution_may_move,
    execution_state_diagram,
    job_may_move,
    job_status_diagram,
    task_state_diagram,
    terminal_table,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState


def test_every_state_has_a_row_in_its_table() -> None:
    assert JOB_MOVES.keys() == set(JobStatus)
    assert EXECUTION_MOVES.keys() == set(ExecutionState)


def test_terminal_states_have_no_transitions() -> None:
    assert all(not JOB_MOVES[status] for status in JOB_TERMINAL)
    assert all(not EXECUTION_MOVES[state] for state in EXECUTION_TERMINAL)


@pytest.mark.parametrize("status", sorted(set(JobStatus) - JOB_TERMINAL - {JobStatus.RECONCILING}))
def test_a_job_can_be_suspended_in_any_state(status: JobStatus) -> None:
    assert job_may_move(status, JobStatus.SUSPENDED)


def test_an_attempt_that_is_being_cancelled_ends_cancelled() -> None:
    assert [to for to in ExecutionState if execution_may_move(ExecutionState.CANCELING, to)] == [
        ExecutionState.CANCELED
    ]


def test_the_diagrams_contain_exactly_the_transitions_of_the_tables() -> None:
    job, execution = job_status_diagram().splitlines(), execution_state_diagram().splitlines()

    assert sum("[*]" not in line and "-->" in line for line in job) == sum(map(len, JOB_MOVES.values()))
    assert sum("[*]" not in line and "-->" in line for line in execution) == sum(map(len, EXECUTION_MOVES.values()))
    assert job[:2] == ["stateDiagram-v2", "    [*] --> CREATED"]
    assert "    FAILING --> RESTARTING" in job
    assert "    CANCELED --> [*]" in execution


def test_a_task_transition_is_allowed_only_if_the_execution_allows_it() -> None:
    reported = {(source, target) for source, targets in TASK_MOVES.items() for target in targets}

    # Only a TaskManager moves from CREATED to CANCELING. The JobMaster cancels an attempt that has not started at
    # once.
    assert {move for move in reported if not execution_may_move(*move)} == {
        (ExecutionState.CREATED, ExecutionState.CANCELING)
    }


def test_the_table_of_terminal_states_in_the_documentation_matches_the_code() -> None:
    assert terminal_table() in (Path(__file__).parents[3] / "docs" / "states.md").read_text()


@pytest.mark.parametrize("diagram", [job_status_diagram, execution_state_diagram, task_state_diagram])
def test_the_diagrams_of_the_documentation_equal_the_tables(diagram: Callable[[], str]) -> None:
    documented = (Path(__file__).parents[3] / "docs" / "states.md").read_text()

    assert f"```mermaid\n{diagram()}```" in documented
