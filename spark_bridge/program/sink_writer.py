"""The writer of a sink in one attempt, and what it stages; without Spark, for simulated clusters have them too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from flykka.messages.wire.message import Value

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged batch: its number of rows, and names that mean something to the sink alone."""

    rows: int
    names: tuple[str, ...] = ()


class SinkWriter(ABC, Generic[Rows]):
    """Writes in one attempt.

    `stage` is called by two stages at once; `restore`, before all else, and `prepare_commit` and `commit`, one at a
    time, by other threads than that. All may block.
    """

    @abstractmethod
    def stage(self, rows: Rows) -> Staged:
        """Write one batch, with nothing to be seen of it before its checkpoint is complete, if the sink can."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        """Return the pieces that the checkpoint must hold; `names` were staged for it.

        Where the parallelism changes, each piece may come to another subtask, and a subtask gets pieces of several.
        """
        return ()

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Let everybody see what was prepared for this checkpoint and those before it; the files made visible."""
        return ()

    def restore(self, prepared: Sequence[Value]) -> None:
        """Commit what the checkpoint holds, and discard whatever else this subtask has staged."""
        return
