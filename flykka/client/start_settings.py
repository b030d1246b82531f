"""The start of an environment's next job: at a checkpoint, or with its input."""

from __future__ import annotations

import os
from enum import Enum, auto
from os import PathLike
from typing import Self

from flykka.errors import ProgramError

AUTO = "auto"
"""In place of a path: where the job left off, if it has run before."""


class StartMode(Enum):
    """The user's choice of how a job starts."""

    AUTO = auto()
    CHECKPOINT = auto()
    """From the checkpoint that was named; what it publishes once more is the user's concern."""
    FRESH = auto()
    OVERWRITE = auto()


class StartSettings:
    """Setters that return the environment. What they say is for the next job; after it `AUTO` holds again."""

    def __init__(self) -> None:
        super().__init__()
        self.restore_from: str | None = AUTO
        self.allow_non_restored_state = False
        self.overwritten: tuple[str, ...] = ()

    def from_checkpoint(self, checkpoint: str | PathLike[str] | None) -> Self:
        """Say where the next job begins.

        "auto", what holds unless set: where the last run of the jobs of this name left off, as noted below a
        checkpoint directory that was named; with the input where there is none. A job that has come to its end, or
        whose rows are in the folder of a sink while there is nothing to continue from, is refused.

        "latest": the newest checkpoint that has completed below the checkpoint directory, of any job. Another text is
        the path of a checkpoint, its folder or its `_metadata` file. None: the input, from its beginning; refused where
        the folder of a sink holds rows of the job.

        A checkpoint is read when the job is executed, and stays: that job does not delete it, and its checkpoints may
        refer to files of it.

        Raises:
            ProgramError: it is empty.
        """
        if checkpoint is not None and not checkpoint:
            raise ProgramError(
                "the checkpoint to continue from must be a path, 'latest' or 'auto', not an empty text; None begins"
                " with the input"
            )
        return self._start_from(None if checkpoint is None else os.fspath(checkpoint))

    def from_savepoint(self, path: str | PathLike[str], allow_non_restored_state: bool = False) -> Self:
        """Let the next job that is executed start from a savepoint.

        `path` is its folder, wherever that was moved to, or its `_metadata` file; a checkpoint will do as well. It is
        read when the job is executed, and stays as it is: once the job has completed a checkpoint of its own, it may be
        deleted. Operators find their state by uid. State that no operator has is refused, unless
        `allow_non_restored_state` lets go of it; operators that are new begin without any.

        Raises:
            ProgramError: it is empty.
        """
        if not path:
            raise ProgramError("the savepoint to start from must be a path, not an empty text")
        return self._start_from(os.fspath(path), allow_non_restored_state=allow_non_restored_state)

    def overwrite(self, *folders: str | PathLike[str]) -> Self:
        """Delete what the next job has published in these folders of its sinks, and begin with its input.

        Only the job's own files are deleted, when all that can be checked before a job runs was checked. It is refused
        where a folder is none of its sinks', or where another folder of a sink holds rows of the job.

        Raises:
            ProgramError: no folder is named, or an empty one.
        """
        if not folders or not all(folders):
            raise ProgramError("overwrite takes the folders of sinks, such as overwrite('errors')")
        self._start_from(None)
        self.overwritten = tuple(os.fspath(folder) for folder in folders)
        return self

    def _start_from(self, said: str | None, *, allow_non_restored_state: bool = False) -> Self:
        self.restore_from, self.allow_non_restored_state = said, allow_non_restored_state
        self.overwritten = ()
        return self


def start_mode(said: StartSettings) -> StartMode:
    """The user's choice for the next job."""
    if said.overwritten:
        return StartMode.OVERWRITE
    if said.restore_from is None:
        return StartMode.FRESH
    return StartMode.AUTO if said.restore_from == AUTO else StartMode.CHECKPOINT
