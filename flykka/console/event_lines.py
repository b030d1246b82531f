"""Prints the events of a job, one line each: a listener for `JobClient.add_listener`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median

from rich.console import Console as RichConsole
from rich.text import Text

from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.actors.machines.restart.repeated_failures import FailureSignature, failure_signature
from flykka.api.launch import current_launch
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    TaskManagerLost,
)
from flykka.messages.control.rescaling import (
    Rescale,
    RescaleChanged,
    RescaleTerminalState,
    RescaleTrigger,
    VertexRescale,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import TaskManagerId
from flykka.messages.wire.message import Message
from flykka.runtime.durations import format_ms
from flykka.runtime.repeated_log import is_reported
from flykka.views.text.formats import STOPPED, format_bytes
from flykka.views.text.user_stack import full_text

PLAIN = ""
COMPLETED = "green"
LOST = "yellow"
FAILED = "red"
FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000
_OF_A_RESTART = frozenset({JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.RUNNING})


class Console:
    """Prints a line for each relevant event of a job, with the seconds since the first event.

    Several completed checkpoints share a line: see `CheckpointLines`. Each aborted checkpoint has its own line. In a
    terminal important lines are coloured, unless NO_COLOR is set. With a `job_name` each line begins with the name. In
    an app started by `flykka run`, a Console without an `output` prints nothing, because its lines are already
    displayed.
    """

    def __init__(self, output: RichConsole | None = None, *, job_name: str | None = None) -> None:
        # In a notebook the lines are plain text too, because another thread than the cell's prints them.
        self._output = output or RichConsole(force_jupyter=False, quiet=current_launch().shows_jobs)
        self._job_name = job_name
        self._began_ms: int | None = None
        self._task_managers: set[TaskManagerId] = set()
        self._last_cause: SerializedThrowable | None = None
        self._finished_ms: int | None = None
        self._checkpoints = CheckpointLines()
        self._same = SameFailures()

    def __call__(self, message: Message) -> None:
        """Print a line for the message, if it is relevant."""
        match message:
            case _ if self._same.hides(message):
                pass
            case JobStatusChanged(status=JobStatus.FINISHED, timestamp_ms=at):
                # The result, which follows, shows whether the job reached the end of its input or was stopped.
                self._finished_ms = at
            case JobResultSuccess(checkpoint_path=checkpoint_path) if self._finished_ms is not None:
                self._line(self._finished_ms, f"job {JobStatus.FINISHED if checkpoint_path is None else STOPPED}")
            case JobStatusChanged(status=status, timestamp_ms=at, cause=cause):
                # FAILING and RESTARTING have the same cause, which is printed once.
                style = FAILED if status in (JobStatus.FAILING, JobStatus.FAILED) else PLAIN
                self._line(at, f"job {status}" + _because(None if cause == self._last_cause else cause), style)
                self._last_cause = cause
            case CheckpointCompleted(path=path, timestamp_ms=at) if is_savepoint(path):
                self._line(at, completed_text(message), COMPLETED)
            case CheckpointCompleted():
                self._print_checkpoints(self._checkpoints.completed(message))
            case CheckpointAborted(checkpoint_id=checkpoint, reason=reason, timestamp_ms=at):
                self._line(at, f"checkpoint {checkpoint} aborted: {message.failure or reason}")
            case JobRestored(checkpoint_id=None, timestamp_ms=at):
                self._line(at, "starts again from the beginning: no checkpoint was complete")
            case JobRestored(checkpoint_id=checkpoint, timestamp_ms=at):
                self._line(at, f"restored from checkpoint {checkpoint}")
            case TaskManagerLost(task_manager=task_manager, reason=reason, timestamp_ms=at):
                self._task_managers.discard(task_manager)
                self._line(at, f"{task_manager} lost: {reason}", LOST)
            case RescaleChanged(rescale=rescale) if rescale.ended_ms is not None:
                if (text := rescale_text(rescale)) is not None:
                    self._line(rescale.ended_ms, text)
            case ExecutionStateChanged():
                self._on_execution(message)
            case _:
                pass

    def _on_execution(self, execution: ExecutionStateChanged) -> None:
        task_manager = execution.task_manager
        if execution.state is ExecutionState.FAILED:
            where = f" on {task_manager}" if task_manager else ""
            self._on_failure(f"{execution.task_name} failed{where}", execution)
            # The status FAILING follows with the same cause.
            self._last_cause = execution.failure
        elif execution.state is ExecutionState.RUNNING and task_manager and task_manager not in self._task_managers:
            self._task_managers.add(task_manager)
            self._line(execution.timestamp_ms, f"{task_manager} runs its first task, {execution.task_name}")

    def _on_failure(self, what: str, execution: ExecutionStateChanged) -> None:
        failure, at_ms = execution.failure, execution.timestamp_ms
        if failure is None:
            self._line(at_ms, what, FAILED)
            return
        times, is_printed = self._same.count(execution.task_name, failure)
        if times == 1:
            self._line(at_ms, "\n           ".join([what + _because(failure), *full_text(failure)[1:]]), FAILED)
        elif is_printed:
            self._line(at_ms, f"{what}: same failure, {times:,} times" + _because(failure), FAILED)

    def _line(self, at_ms: int, text: str, style: str = PLAIN) -> None:
        self._print_checkpoints(self._checkpoints.interrupted())
        self._print(at_ms, text, style)

    def _print_checkpoints(self, line: CheckpointLine | None) -> None:
        if line is not None:
            self._print(line.timestamp_ms, line.text, COMPLETED)

    def _print(self, at_ms: int, text: str, style: str) -> None:
        if self._began_ms is None:
            self._began_ms = at_ms
        line = Text(f"{(at_ms - self._began_ms) / 1_000:7.2f} s  ")
        if self._job_name is not None:
            line.append(f"{self._job_name}: ", "bold")
        line.append(text, style)
        # Other threads print too, so each line is one write, whatever its length.
        self._output.print(line, soft_wrap=True, highlight=False)


def _because(cause: SerializedThrowable | None) -> str:
    return "" if cause is None else f": {cause.headline}"


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    timestamp_ms: int
    text: str


class CheckpointLines:
    """Accumulates checkpoints until a line is due: a minute after the previous line, then two minutes, up to an hour.

    Times are those of the messages.
    """

    def __init__(self) -> None:
        self._printed_ms: int | None = None
        self._pause_ms = FIRST_PAUSE_MS
        self._first_id = 0
        self._last: CheckpointCompleted | None = None
        self._durations_ms: list[int] = []

    def completed(self, checkpoint: CheckpointCompleted) -> CheckpointLine | None:
        """Add a completed checkpoint. Returns a line if one is due."""
        if self._last is None:
            self._first_id = checkpoint.checkpoint_id
        self._last = checkpoint
        self._durations_ms.append(checkpoint.duration_ms)
        now_ms = checkpoint.timestamp_ms
        if self._printed_ms is not None:
            if now_ms - self._printed_ms < self._pause_ms:
                return None
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        self._printed_ms = now_ms
        return self._line()

    def interrupted(self) -> CheckpointLine | None:
        """Return the line for accumulated checkpoints, because another line follows. Resets the interval."""
        self._printed_ms, self._pause_ms = None, FIRST_PAUSE_MS
        return self._line()

    def _line(self) -> CheckpointLine | None:
        if self._last is None:
            return None
        last, durations_ms = self._last, self._durations_ms
        self._last, self._durations_ms = None, []
        if len(durations_ms) == 1:
            return CheckpointLine(last.timestamp_ms, completed_text(last))
        text = f"checkpoints {self._first_id}-{last.checkpoint_id} completed"
        middle = format_ms(round(median(durations_ms)))
        return CheckpointLine(last.timestamp_ms, f"{text}, median {middle}; the last: {_size(last)}")


def completed_text(checkpoint: CheckpointCompleted) -> str:
    what = "savepoint" if is_savepoint(checkpoint.path) else "checkpoint"
    return f"{what} {checkpoint.checkpoint_id} completed in {format_ms(checkpoint.duration_ms)}: {_size(checkpoint)}"


def _size(checkpoint: CheckpointCompleted) -> str:
    return f"{format_bytes(checkpoint.size_bytes)}, {format_bytes(checkpoint.incremental_bytes)} of it new"


def rescale_text(rescale: Rescale) -> str | None:
    """Format the line of a rescale. Returns None if there is nothing to report, or not yet."""
    match rescale.terminal_state:
        case RescaleTerminalState.COMPLETED:
            changes = [change for vertex in rescale.vertices if (change := _change(vertex))]
            return f"rescaled: {', '.join(changes)}" if changes else None
        case RescaleTerminalState.FAILED:
            return f"not rescaled: {rescale.comment or rescale.reason}"
        case RescaleTerminalState.IGNORED if rescale.trigger is RescaleTrigger.UPDATE_REQUIREMENT:
            return f"not rescaled: {rescale.comment or rescale.reason}"
        case _:
            return None


def _change(vertex: VertexRescale) -> str | None:
    before, after = vertex.pre_parallelism, vertex.post_parallelism
    if before is None:
        # A job that starts with the desired parallelism is not worth a line.
        return None if after == vertex.desired_parallelism else f"{vertex.name} {after} of {vertex.desired_parallelism}"
    return None if before == after else f"{vertex.name} {before} -> {after}"


class SameFailures:
    """Counts repeated failures of a job since its last checkpoint, so that they are printed less and less often.

    Messages about the consequences of an unprinted failure are not printed either.
    """

    def __init__(self) -> None:
        self._times: Counter[FailureSignature] = Counter()
        self._is_hidden = False

    def count(self, task_name: str, cause: SerializedThrowable) -> tuple[int, bool]:
        """Count a failure. Returns the count, and whether to report the failure (see `is_reported`)."""
        signature = failure_signature(task_name.rpartition(" (")[0], cause)
        if signature is None:
            self._is_hidden = False
            return 1, True
        self._times[signature] += 1
        times = self._times[signature]
        self._is_hidden = not is_reported(times)
        return times, not self._is_hidden

    def hides(self, message: Message) -> bool:
        """Return whether the message is only a consequence of an unprinted failure."""
        match message:
            case CheckpointCompleted():
                self._times.clear()
                self._is_hidden = False
                return False
            case JobStatusChanged(status=status):
                return self._is_hidden and status in _OF_A_RESTART
            case CheckpointAborted(failure=CheckpointFailure(times=times)):
                return not is_reported(times)
            case CheckpointAborted(reason=reason):
                return self._is_hidden and reason is CheckpointDeclineReason.JOB_FAILOVER_REGION
            case JobRestored():
                return self._is_hidden
            case _:
                return False
