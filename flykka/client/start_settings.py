"""The start of an environment's next job: from a checkpoint, or at the beginning of its input.

This module loads no messages, so that options can use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

AUTO = "auto"
"""Used instead of a path: where the last run of the job stopped."""


class StartMode(Enum):
    """The user's choice of how a job starts."""

    AUTO = auto()
    CHECKPOINT = auto()
    """From a specified checkpoint; the user accepts rows that are published again."""
    FRESH = auto()
    OVERWRITE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """The start of the next job: a checkpoint, or the beginning (None); replaces output in `overwritten` folders."""

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
