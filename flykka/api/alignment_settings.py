"""Settings of checkpoint barriers: their mode and alignment. PyFlink has these on its CheckpointConfig."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from flykka.api.streams.program import one_of
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import CheckpointingMode, CheckpointingSettings
from flykka.runtime.durations import Duration, duration_ms


class AlignmentSettings:
    """Setters that return the environment, as Flink's do."""

    checkpointing: CheckpointingSettings

    def set_checkpointing_mode(self, mode: CheckpointingMode | str) -> Self:
        """Set the guarantee for every row after a failure; the enum or its name.

        `EXACTLY_ONCE`, what holds unless set, counts it once. `AT_LEAST_ONCE` loses none, but rows that came from a
        fast input may count twice: no input waits for the barriers of the others.

        Raises:
            ProgramError: there is no such mode, or unaligned checkpoints are enabled and it is not EXACTLY_ONCE.
        """
        chosen = one_of(CheckpointingMode, mode, "checkpointing mode")
        return self._set_checkpointing(mode=chosen)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Let barriers overtake the batches that wait in channels, so that checkpoints are fast under back-pressure.

        What was overtaken becomes part of the checkpoint, and is on its way again in a job that starts from it, at
        another parallelism too. A savepoint, or the checkpoint of a job that was stopped, is always aligned.

        Raises:
            ProgramError: checkpoints may overlap (`max_concurrent`), or are not EXACTLY_ONCE.
        """
        return self._set_checkpointing(unaligned=enabled)

    def set_aligned_checkpoint_timeout(self, timeout: Duration) -> Self:
        """Let unaligned checkpoints begin aligned, and become unaligned when their barriers take longer than this.

        With 0, what holds unless set, they are unaligned from the start.

        Raises:
            DurationError: it is no length of time.
        """
        return self._set_checkpointing(aligned_timeout_ms=duration_ms(timeout, "aligned checkpoint timeout"))

    def _set_checkpointing(self, **changed: Any) -> Self:
        self.checkpointing = checked(replace(self.checkpointing, **changed))
        return self


def checked(settings: CheckpointingSettings) -> CheckpointingSettings:
    """The settings, if they go together.

    Raises:
        ProgramError: unaligned checkpoints are enabled with what they do not go with.
    """
    if settings.unaligned and settings.mode is not CheckpointingMode.EXACTLY_ONCE:
        raise ProgramError(
            f"unaligned checkpoints need the checkpointing mode EXACTLY_ONCE, not {settings.mode}: leave out"
            " set_checkpointing_mode, or enable_unaligned_checkpoints"
        )
    if settings.unaligned and settings.max_concurrent > 1:
        raise ProgramError(
            f"unaligned checkpoints cannot overlap: enable_checkpointing with max_concurrent=1, not"
            f" {settings.max_concurrent}, or leave out enable_unaligned_checkpoints"
        )
    return settings
