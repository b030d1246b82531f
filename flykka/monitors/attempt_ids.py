"""What the id of an execution attempt tells: whose attempt it is, and which one."""

from __future__ import annotations

from flykka.messages.wire.ids import ExecutionAttemptId


def subtask_of(attempt: ExecutionAttemptId) -> str:
    """What the ids of all attempts of one subtask have in common."""
    return _parted(attempt)[0]


def number_of(attempt: ExecutionAttemptId) -> int:
    """From 0 upwards; 0 where the id is not of the form that JobMasters give it."""
    return _parted(attempt)[1]


def _parted(attempt: str) -> tuple[str, int]:
    subtask, _, number = attempt.rpartition("_")
    return (subtask, int(number)) if number.isdecimal() else (attempt, 0)
