"""Reads the id of an execution attempt: its subtask and its number."""

from __future__ import annotations

from flykka.messages.wire.ids import ExecutionAttemptId


def subtask_of(attempt: ExecutionAttemptId) -> str:
    """The part that the ids of all attempts of one subtask share."""
    return _parted(attempt)[0]


def number_of(attempt: ExecutionAttemptId) -> int:
    """From 0 upwards; 0 where the id is not of the form that JobMasters give it."""
    return _parted(attempt)[1]


def _parted(attempt: str) -> tuple[str, int]:
    subtask, _, number = attempt.rpartition("_")
    return (subtask, int(number)) if number.isdecimal() else (attempt, 0)
