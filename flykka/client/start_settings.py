"""The start of an environment's next job: from a checkpoint, or at the beginning of its input.

This module must not import messages, because the option definitions use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

AUTO = "auto"
"""Stands for a start where the last run of the job stopped, in place of a path."""


class StartMode(Enum):
    AUTO = auto()
    CHECKPOINT = auto()
    """Start from a specified checkpoint. The user accepts that rows are published again."""
    FRESH = auto()
    OVERWRITE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """The start of the next job: from a checkpoint, or from the beginning of the input if it is None.

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
