"""The writer of a sink in one attempt and its staged batches; without Spark, for simulated clusters use them too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from flykka.messages.wire.message import Value

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged batch: its number of rows, and names that only the sink interprets."""

    rows: int
    names: tuple[str, ...] = ()


class SinkWriter(ABC, Generic[Rows]):
    """Writes the rows of one attempt.

    Two stages may call `stage` at once; `restore`, before all else, and `prepare_commit` and `commit` are called one at
    a time, from other threads. All may block.
    """

    @abstractmethod
    def stage(self, rows: Rows) -> Staged:
        """Write one batch, invisible to readers until its checkpoint is complete, if the sink supports that."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        """Return the state for the checkpoint, as pieces; `names` were staged for it.

        If the parallelism changes, each piece may go to another subtask, and a subtask may get pieces of several.
        """
        return ()

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish the rows prepared for this checkpoint and those before it; return the published files."""
        return ()

    def restore(self, prepared: Sequence[Value]) -> None:
        """Commit the pieces of the checkpoint, and discard everything else that this subtask has staged."""
        return
