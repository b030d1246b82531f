"""Checkpoints that went well, as lines: the first one, and then many in one line, more rarely the longer it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from flykka.actors.checkpoint_storage.savepoint_name import is_savepoint
from flykka.messages.control.job import CheckpointCompleted
from flykka.runtime.durations import format_ms
from flykka.views.text.formats import format_bytes

FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A line to print, and the time (ms) that it tells of."""

    timestamp_ms: int
    text: str


class CheckpointLines:
    """Holds checkpoints back until a line for them is due: a minute after the line before, then two, up to an hour.

    The clock is that of the messages.
    """

    def __init__(self) -> None:
        self._told_ms: int | None = None
        self._pause_ms = FIRST_PAUSE_MS
        self._first_id = 0
        self._last: CheckpointCompleted | None = None
        self._durations_ms: list[int] = []

    def completed(self, checkpoint: CheckpointCompleted) -> CheckpointLine | None:
        """The line that is due now that a checkpoint has completed."""
        if self._last is None:
            self._first_id = checkpoint.checkpoint_id
        self._last = checkpoint
        self._durations_ms.append(checkpoint.duration_ms)
        now_ms = checkpoint.timestamp_ms
        if self._told_ms is not None:
            if now_ms - self._told_ms < self._pause_ms:
                return None
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        self._told_ms = now_ms
        return self._line()

    def interrupted(self) -> CheckpointLine | None:
        """The line for what was held back, before something else is printed; the next one is a first one again."""
        self._told_ms, self._pause_ms = None, FIRST_PAUSE_MS
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
        return CheckpointLine(last.timestamp_ms, f"{text}, {middle} at the median; the last: {_size(last)}")


def completed_text(checkpoint: CheckpointCompleted) -> str:
    """Return the text for a single checkpoint or savepoint."""
    what = "savepoint" if is_savepoint(checkpoint.path) else "checkpoint"
    return f"{what} {checkpoint.checkpoint_id} completed in {format_ms(checkpoint.duration_ms)}: {_size(checkpoint)}"


def _size(checkpoint: CheckpointCompleted) -> str:
    return f"{format_bytes(checkpoint.size_bytes)}, {format_bytes(checkpoint.incremental_bytes)} of it new"
