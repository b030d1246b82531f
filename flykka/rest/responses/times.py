"""The times of an attempt, out of those at which it has entered its states."""

from __future__ import annotations

from flykka.messages.monitoring.job_details import AttemptDetails
from flykka.messages.tasks.task import ExecutionState
from flykka.rest.responses.io_metrics import Json

NEVER = -1
"""Stands for the time of what has not happened."""

_ENDS = (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)
_LASTING = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.RUNNING,
)


def entered(attempt: AttemptDetails, state: ExecutionState) -> int:
    """The time at which an attempt has entered a state."""
    return next((stamp.at_ms for stamp in attempt.timestamps if stamp.state is state), NEVER)


def left_at(attempt: AttemptDetails) -> int:
    """The time of its end."""
    return max((entered(attempt, state) for state in _ENDS), default=NEVER)


def duration(attempt: AttemptDetails, now_ms: int) -> int:
    """The time since it was deployed, to its end or until now."""
    begun, ended = entered(attempt, ExecutionState.DEPLOYING), left_at(attempt)
    return NEVER if begun == NEVER else (now_ms if ended == NEVER else ended) - begun


def status_duration(attempt: AttemptDetails, now_ms: int) -> Json:
    """The time that it was in each state; 0 in one that it has passed over."""
    stamps = sorted(attempt.timestamps, key=lambda stamp: stamp.at_ms)
    spent = {**dict.fromkeys((state.value for state in _LASTING), 0), "INITIALIZING": 0}
    for number, stamp in enumerate(stamps):
        until = stamps[number + 1].at_ms if number + 1 < len(stamps) else now_ms
        if stamp.state in _LASTING:
            spent[stamp.state.value] = max(0, until - stamp.at_ms)
    return spent


def timestamps(attempt: AttemptDetails) -> Json:
    """The times of all states."""
    return {state.value: max(0, entered(attempt, state)) for state in ExecutionState}
