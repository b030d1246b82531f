"""The times of an attempt, out of those at which it has entered its states."""

from __future__ import annotations

from collections.abc import Sequence

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
    return next((stamp.at_ms for stamp in attempt.timestamps if stamp.state is state), NEVER)


def left_at(attempt: AttemptDetails) -> int:
    return max((entered(attempt, state) for state in _ENDS), default=NEVER)


def lifetime(attempts: Sequence[AttemptDetails], now_ms: int) -> Json:
    """From the first deployment of several attempts to the last end, or until now while one of them has none."""
    ends = [left_at(attempt) for attempt in attempts]
    ended = NEVER if NEVER in ends else max(ends, default=NEVER)
    starts = [at for attempt in attempts if (at := entered(attempt, ExecutionState.DEPLOYING)) != NEVER]
    begun = min(starts, default=NEVER)
    took = NEVER if begun == NEVER else (now_ms if ended == NEVER else ended) - begun
    return {"start-time": begun, "end-time": ended, "duration": took}


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
    return {state.value: max(0, entered(attempt, state)) for state in ExecutionState}
