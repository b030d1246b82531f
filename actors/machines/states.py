"""The legal transitions of a job, of an execution attempt and of a task, as literal tables (Flink's JobStatus and
ExecutionState).

All transitions go through `job_may_move`, `execution_may_move` and `task_may_move`. The diagrams and tables of the
documentation are generated from these tables, so that they cannot disagree. Other enums of phases have their own
tables, and change through `next_phase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar

from flykka.actors.errors import IllegalTransitionError
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable

S = TypeVar("S", bound=StrEnum)
J = JobStatus
E = ExecutionState

JOB_MOVES: dict[JobStatus, tuple[JobStatus, ...]] = {
    J.CREATED: (J.RUNNING, J.FAILING, J.CANCELLING, J.SUSPENDED),
    J.RUNNING: (J.FINISHED, J.FAILING, J.CANCELLING, J.RESTARTING, J.SUSPENDED),
    J.FAILING: (J.RESTARTING, J.FAILED, J.CANCELLING, J.SUSPENDED),
    J.RESTARTING: (J.CREATED, J.FAILING, J.CANCELLING, J.CANCELED, J.SUSPENDED),
    J.CANCELLING: (J.CANCELED, J.FAILING, J.SUSPENDED),
    J.RECONCILING: (),
    J.FAILED: (),
    J.CANCELED: (),
    J.FINISHED: (),
    J.SUSPENDED: (),
}
"""A global failure overrides a running cancellation. A job that is rescaled is RESTARTING while its tasks end, and
CANCELLING if it is cancelled then. RECONCILING is Flink's takeover; no transition leads to it.
"""

EXECUTION_MOVES: dict[ExecutionState, tuple[ExecutionState, ...]] = {
    E.CREATED: (E.SCHEDULED, E.DEPLOYING, E.CANCELED, E.FAILED),
    E.SCHEDULED: (E.DEPLOYING, E.CANCELED, E.FAILED),
    E.DEPLOYING: (E.RUNNING, E.FINISHED, E.CANCELING, E.CANCELED, E.FAILED),
    E.RUNNING: (E.FINISHED, E.CANCELING, E.CANCELED, E.FAILED),
    E.CANCELING: (E.CANCELED,),
    E.RECONCILING: (),
    E.FINISHED: (),
    E.CANCELED: (),
    E.FAILED: (),
}
"""An attempt that fails or finishes while it is being cancelled ends CANCELED."""

TASK_MOVES: dict[ExecutionState, tuple[ExecutionState, ...]] = {
    E.CREATED: (E.DEPLOYING, E.CANCELING, E.FAILED),
    E.DEPLOYING: (E.RUNNING, E.CANCELING, E.FAILED),
    E.RUNNING: (E.FINISHED, E.CANCELING, E.FAILED),
    E.CANCELING: (E.CANCELED,),
    E.FINISHED: (),
    E.CANCELED: (),
    E.FAILED: (),
}
"""The states of the same attempt on its TaskManager. The attempt is deployed with its slot, so it never waits for a
slot here.
"""

JOB_TERMINAL = frozenset({J.FAILED, J.CANCELED, J.FINISHED, J.SUSPENDED})
JOB_GLOBALLY_TERMINAL = JOB_TERMINAL - {J.SUSPENDED}
"""The statuses that are terminal in the whole cluster. A suspended job may be resumed by another leader."""
JOB_HAS_CAUSE = frozenset({J.FAILING, J.RESTARTING, J.FAILED, J.CANCELLING, J.CANCELED})
"""The statuses reported with the failure of the job, or with the cause of a cancellation that no user requested."""
EXECUTION_TERMINAL = frozenset({E.FINISHED, E.CANCELED, E.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMoved:
    status: JobStatus
    cause: SerializedThrowable | None = None


def job_may_move(from_status: JobStatus, to_status: JobStatus) -> bool:
    return to_status in JOB_MOVES[from_status]


def execution_may_move(from_state: ExecutionState, to_state: ExecutionState) -> bool:
    return to_state in EXECUTION_MOVES[from_state]


def task_may_move(from_state: ExecutionState, to_state: ExecutionState) -> bool:
    return to_state in TASK_MOVES[from_state]


def job_status_diagram() -> str:
    return _diagram(JOB_MOVES, J.CREATED, JOB_TERMINAL)


def execution_state_diagram() -> str:
    return _diagram(EXECUTION_MOVES, E.CREATED, EXECUTION_TERMINAL)


def task_state_diagram() -> str:
    return _diagram(TASK_MOVES, E.CREATED, EXECUTION_TERMINAL)


def terminal_table() -> str:
    lines = ["| | terminal | globally |", "| --- | --- | --- |"]
    for status in JOB_MOVES:
        lines.append(_terminal(f"job {status}", status in JOB_TERMINAL, status in JOB_GLOBALLY_TERMINAL))
    for state in EXECUTION_MOVES:
        lines.append(_terminal(f"attempt {state}", state in EXECUTION_TERMINAL, state in EXECUTION_TERMINAL))
    return "\n".join(lines) + "\n"


def _terminal(what: str, ends: bool, for_everybody: bool) -> str:
    return f"| {what} | {'yes' if ends else 'no'} | {'yes' if for_everybody else 'no'} |"


def _diagram(moves: Mapping[S, tuple[S, ...]], start: S, terminal: frozenset[S]) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {start}"]
    lines += [f"    {source} --> {target}" for source, targets in moves.items() for target in targets]
    lines += [f"    {state} --> [*]" for state in moves if state in terminal]
    return "\n".join(lines) + "\n"


P = TypeVar("P", bound=Enum)


def next_phase(moves: Mapping[P, tuple[P, ...]], phase: P, target: P) -> P:
    """Return `target` if the machine may change to it, or is already in it.

    Raises:
        IllegalTransitionError: the table does not have the transition.
    """
    if target is not phase and target not in moves[phase]:
        raise IllegalTransitionError(f"{type(phase).__name__} is {phase.name} and cannot become {target.name}")
    return target
