"""The start of an environment's next job: from a checkpoint, or at the beginning of its input.

This module must not import messages, because options use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

AUTO = "auto"
"""Used instead of a path: start where the last run of the job stopped."""


class StartMode(Enum):
    """The user's choice of how a job starts."""

    AUTO = auto()
    CHECKPOINT = auto()
    """Start from a specified checkpoint; the user accepts that rows are published again."""
    FRESH = auto()
    OVERWRITE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """Settings for the start of the next job, from a checkpoint or, if None, the beginning of the input.

    Output in the folders `overwritten` is replaced.
    """

    restore_from: str | None = AUTO
    allow_non_restored_state: bool = False
    overwritten: tuple[str, ...] = ()

    @property
    def mode(self) -> StartMode:
        if self.overwritten:
            return StartMode.OVERWRITE
        if self.restore_from is None:
            return StartMode.FRESH
        return StartMode.AUTO if self.restore_from == AUTO else StartMode.CHECKPOINT
