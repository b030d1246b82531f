"""The start of an environment's next job: at a checkpoint, or with its input. Options know it without a message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

AUTO = "auto"
"""In place of a path: where the job left off, if it has run before."""


class StartMode(Enum):
    """The user's choice of how a job starts."""

    AUTO = auto()
    CHECKPOINT = auto()
    """From the checkpoint that was named; what it publishes once more is the user's concern."""
    FRESH = auto()
    OVERWRITE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """The start of the next job: a checkpoint, or its input (None), in place of the rows in `overwritten` folders."""

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
