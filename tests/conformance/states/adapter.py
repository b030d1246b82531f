"""Area 05: runs each case on its machine, and checks its expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.machines.states import EXECUTION_TERMINAL, JOB_GLOBALLY_TERMINAL, JOB_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState
from tests.conformance.case_files import Case, UnknownWordError, is_since
from tests.conformance.states.execution_case import ExecutionCase
from tests.conformance.states.job_case import JobCase
from tests.conformance.states.task_case import TaskCase

TABLES: dict[str, dict[str, frozenset[Any]]] = {
    "job_status": {
        "terminal": JOB_TERMINAL,
        "globally_terminal": JOB_GLOBALLY_TERMINAL,
        "not_terminal": frozenset(JobStatus) - JOB_TERMINAL,
        "not_globally_terminal": frozenset(JobStatus) - JOB_GLOBALLY_TERMINAL,
    },
    "execution_state": {
        "terminal": EXECUTION_TERMINAL,
        "not_terminal": frozenset(ExecutionState) - EXECUTION_TERMINAL,
    },
}


def run_case(case: Case) -> None:
    component = case["given"]["component"]
    if component in TABLES:
        if case["steps"]:
            raise UnknownWordError(f"steps of a table: {case['steps']}")
        _compare(TABLES[component], case["expect"])
        return
    subject = _subject(component, case)
    for step in case["steps"]:
        subject.do(step)
        for word, wanted in step.get("want", {}).items():
            assert subject.holds(word, wanted), f"after {step}: {word} is not {wanted}"
    for word, wanted in case["expect"].items():
        assert subject.holds(word, wanted), f"at the end {word} is not {wanted}"


def _subject(component: str, case: Case) -> ExecutionCase | JobCase | TaskCase:
    match component:
        case "execution":
            return ExecutionCase(case["given"])
        case "job":
            return JobCase(case["given"], is_since_1_11=is_since(case, 1, 11))
        case "task":
            return TaskCase(case["given"])
        case unknown:
            raise UnknownWordError(f"component {unknown!r}")


def _compare(table: Mapping[str, frozenset[Any]], expect: Mapping[str, list[str]]) -> None:
    for word, wanted in expect.items():
        if word not in table:
            raise UnknownWordError(word)
        assert sorted(table[word]) == sorted(wanted)
