"""Settings of failed checkpoints: how many a job survives, and of which causes. PyFlink has them on its config."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from flykka.api.streams.program import not_negative, one_of
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.graph.tolerable_failures import (
    UNLIMITED_TOLERABLE_FAILURES,
    CheckpointFailureReason,
    TolerableFailures,
)

_SHORT = {"EXPIRED": CheckpointFailureReason.CHECKPOINT_EXPIRED}
"""Reasons as the log and the statistics of checkpoints have them."""


class CheckpointFailureSettings:
    """Setters that return the environment, as Flink's do."""

    checkpointing: CheckpointingSettings

    def set_tolerable_checkpoint_failure_number(self, number: int, *causes: CheckpointFailureReason | str) -> Self:
        """Let so many checkpoints in a row fail before the job does: of each of these causes, or of all others.

        Without `causes` it is the number for all those that have none of their own (0 unless set). With them the
        failures of each cause are counted by themselves: they are values of `CheckpointFailureReason`, or their names.
        A checkpoint that completes ends the row. What a job gives up itself, as when it is restarted, never counts.

        Raises:
            ProgramError: it is below 0, or there is no such cause.
        """
        return self._tolerate(not_negative(number, "number of tolerable checkpoint failures"), causes)

    def set_fail_on_checkpointing_errors(self, fails: bool, *causes: CheckpointFailureReason | str) -> Self:
        """Have the first checkpoint that fails of one of these causes fail the job, or (False) never one of them.

        Without `causes` it holds for all those of which nothing is said. A job that is failed this way is restarted
        from its last checkpoint, as its restart strategy says.

        Raises:
            ProgramError: there is no such cause.
        """
        return self._tolerate(0 if fails else UNLIMITED_TOLERABLE_FAILURES, causes)

    def _tolerate(self, number: int, causes: tuple[CheckpointFailureReason | str, ...]) -> Self:
        chosen = [one_of(CheckpointFailureReason, _SHORT.get(cause, cause), "cause of failure") for cause in causes]
        if not chosen:
            self.checkpointing = replace(self.checkpointing, tolerable_failures=number)
            return self
        numbers = {each.reason: each.number for each in self.checkpointing.tolerable_by_reason}
        numbers |= dict.fromkeys(chosen, number)
        tolerable = tuple(TolerableFailures(reason=reason, number=numbers[reason]) for reason in sorted(numbers))
        self.checkpointing = replace(self.checkpointing, tolerable_by_reason=tolerable)
        return self
