"""Area 05: the tables of states, the moves of one attempt, the life of a job, the life of a task."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.graph.states import EXECUTION_TERMINAL, JOB_GLOBALLY_TERMINAL, JOB_TERMINAL
from flykka.messages.job import JobStatus
from flykka.messages.task import ExecutionState
from tests.conformance.case_files import Case, cases_of
from tests.conformance.execution_case import ExecutionCase
from tests.conformance.job_case import JobCase
from tests.conformance.task_case import TaskCase

CASES = cases_of("05_states")

COMPONENTS = {"job_status", "execution_state", "execution", "job", "task"}
"""What the cases are about; each has its test below."""

NOT_YET: dict[str, str] = {
    "finalize-on-success-once": "no operator is finalised on the JobMaster's side: sinks publish with the checkpoint",
    "unknown-partition-report-does-not-fail-job": "consumers are deployed with their producers: nobody reports data",
    "task-body-raises-wrapped": "the bridge takes off what Spark wraps around a failure, before the task hears of it",
    "task-producer-state-while-running": (
        "the JobMaster cancels the consumers of a failed producer by itself: no task asks for its producer's state"
    ),
    "task-producer-check-timeout": "as above: nobody asks, so nobody waits for the answer",
    "task-shared-lock-body-and-cancel": "a task is an actor and holds no lock; its code runs, and is ended, in Spark",
    "task-cancel-settings-from-job": "no thread is interrupted at intervals: Spark is told once to end the work",
}
"""Cases without a counterpart, and why."""

EXCEPTIONS: dict[str, str] = {
    "pending-slot-requests-cancelled-on-cancel": (
        "a fact of the region scheduler of 1.11, where 31 tasks run while 50 wait. Eager scheduling deploys nothing"
        " before every slot is there, so the cancelled job has no task to wait for and is CANCELED at once"
    ),
}
"""Cases that hold otherwise here, argued."""


def covered(component: str) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in CASES
        if case["given"]["component"] == component and case["id"] not in NOT_YET and case["id"] not in EXCEPTIONS
    ]


@pytest.mark.parametrize("case", covered("job_status"))
def test_the_statuses_of_a_job_end_where_flinks_do(case: Case) -> None:
    table = {
        "terminal": JOB_TERMINAL,
        "globally_terminal": JOB_GLOBALLY_TERMINAL,
        "not_terminal": frozenset(JobStatus) - JOB_TERMINAL,
    }

    assert {word: sorted(table[word]) for word in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", covered("execution_state"))
def test_the_states_of_an_attempt_end_where_flinks_do(case: Case) -> None:
    table = {"terminal": EXECUTION_TERMINAL, "not_terminal": frozenset(ExecutionState) - EXECUTION_TERMINAL}

    assert {word: sorted(table[word]) for word in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", covered("execution"))
def test_an_attempt_moves_as_flinks_execution(case: Case) -> None:
    run(ExecutionCase(case["given"]), case)


@pytest.mark.parametrize("case", covered("job"))
def test_a_job_moves_as_flinks_execution_graph(case: Case) -> None:
    # The slot provider of the 1.9 tests refuses at once what it does not have; the later slot pool lets it wait.
    run(JobCase(case["given"], unserved_requests_wait=case.get("since") == "1.11"), case)


@pytest.mark.parametrize("case", covered("task"))
def test_a_task_moves_as_flinks_task(case: Case) -> None:
    run(TaskCase(case["given"]), case)


def test_every_case_is_covered_or_said_not_to_be() -> None:
    left_out = NOT_YET.keys() | EXCEPTIONS.keys()
    run_here = sum(len(covered(component)) for component in COMPONENTS)

    assert {case["given"]["component"] for case in CASES} == COMPONENTS
    assert left_out <= {case["id"] for case in CASES}
    assert (run_here, len(left_out)) == (47, 8)
    assert run_here + len(left_out) == len(CASES)


def run(subject: ExecutionCase | JobCase | TaskCase, case: Case) -> None:
    for step in case["steps"]:
        subject.do(step)
        for word, wanted in step.get("want", {}).items():
            assert subject.holds(word, wanted), f"after {step}: {word} is not {wanted}"
    for word, wanted in case["expect"].items():
        assert subject.holds(word, wanted), f"at the end {word} is not {wanted}"
