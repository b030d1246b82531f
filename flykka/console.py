"""What happens to a job, as plain lines: a listener for `JobClient.add_listener`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import TaskManagerId
from flykka.messages.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobStatusChanged,
    TaskManagerLost,
)
from flykka.messages.message import Message
from flykka.messages.task import ExecutionState
from flykka.runtime.durations import format_ms


def write_line(line: str) -> None:
    """Print one line at once, whole, also where other threads print."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Console:
    """Writes a line for what a reader wants to know, with the seconds since the first message about the job."""

    def __init__(self, write: Callable[[str], object] = write_line) -> None:
        self._write = write
        self._began_ms: int | None = None
        self._task_managers: set[TaskManagerId] = set()
        self._told: SerializedThrowable | None = None

    def __call__(self, message: Message) -> None:
        """Write what the message tells, if it is worth a line."""
        match message:
            case JobStatusChanged(status=status, timestamp_ms=at, cause=cause):
                # FAILING and RESTARTING have one cause: it is told once.
                self._line(at, f"job {status}" + _because(None if cause == self._told else cause))
                self._told = cause
            case CheckpointCompleted(timestamp_ms=at):
                self._line(at, _completed(message))
            case CheckpointAborted(checkpoint_id=checkpoint, reason=reason, timestamp_ms=at):
                self._line(at, f"checkpoint {checkpoint} aborted: {reason}")
            case JobRestored(checkpoint_id=None, timestamp_ms=at):
                self._line(at, "starts again from the beginning: no checkpoint was complete")
            case JobRestored(checkpoint_id=checkpoint, timestamp_ms=at):
                self._line(at, f"restored from checkpoint {checkpoint}")
            case TaskManagerLost(task_manager=task_manager, reason=reason, timestamp_ms=at):
                self._task_managers.discard(task_manager)
                self._line(at, f"{task_manager} lost: {reason}")
            case ExecutionStateChanged():
                self._on_execution(message)
            case _:
                pass

    def _on_execution(self, execution: ExecutionStateChanged) -> None:
        task_manager = execution.task_manager
        if execution.state is ExecutionState.FAILED:
            where = f" on {task_manager}" if task_manager else ""
            self._line(execution.timestamp_ms, f"{execution.task_name} failed{where}" + _because(execution.failure))
        elif execution.state is ExecutionState.RUNNING and task_manager and task_manager not in self._task_managers:
            self._task_managers.add(task_manager)
            self._line(execution.timestamp_ms, f"{task_manager} runs its first task, {execution.task_name}")

    def _line(self, at_ms: int, text: str) -> None:
        if self._began_ms is None:
            self._began_ms = at_ms
        self._write(f"{(at_ms - self._began_ms) / 1_000:7.2f} s  {text}")


def _completed(checkpoint: CheckpointCompleted) -> str:
    size = f"{format_bytes(checkpoint.size_bytes)}, {format_bytes(checkpoint.incremental_bytes)} of it new"
    return f"checkpoint {checkpoint.checkpoint_id} completed in {format_ms(checkpoint.duration_ms)}: {size}"


def _because(cause: SerializedThrowable | None) -> str:
    if cause is None:
        return ""
    first_line = cause.message.strip().partition("\n")[0]
    return f": {cause.type_name.rpartition('.')[2]}: {first_line}"


def format_bytes(size: int) -> str:
    """A size as a short text, in powers of 1024."""
    if size < 1_024:
        return f"{size} B"
    amount = size / 1_024
    for unit in ("KiB", "MiB", "GiB"):
        if amount < 1_024:
            return f"{amount:.1f} {unit}"
        amount /= 1_024
    return f"{amount:.1f} TiB"
