"""The writer of a sink in one attempt, and its staged batches. Simulated clusters use it too, so it needs no Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from flykka.messages.wire.message import Value

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged batch: its row count, and names that only the sink interprets."""

    rows: int
    names: tuple[str, ...] = ()


class SinkWriter(ABC, Generic[Rows]):
    """Writes the rows of one attempt.

    Two stages may call `stage` at once. `restore`, which is called first, and `prepare_commit` and `commit` are called
    one at a time, from other threads. All may block.
    """

    @abstractmethod
    def stage(self, rows: Rows) -> Staged:
        """Write one batch, which is invisible to readers until its checkpoint is complete if the sink supports that."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        """Return the state for the checkpoint as elements that may be redistributed. `names` are the batches staged for
        the checkpoint.

        If the parallelism changes, elements of one subtask may go to several subtasks, and a subtask may get elements
        of several.
        """
        return ()

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish the rows prepared for this checkpoint and for earlier checkpoints. Return the published files."""
        return ()

    def restore(self, prepared: Sequence[Value]) -> None:
        """Commit the elements of the checkpoint's state, and discard all other rows that this subtask has staged."""
        return
