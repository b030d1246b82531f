"""The port of state backends: an engine keeps the rows of keyed state, reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from flykka.actors.machines.state.keyed_state import Handle, StatePart
from flykka.actors.machines.state.segments import Frame, Reading, Segment, Unwritten
from flykka.messages.state.handles import KeyGroupRange, SharedStateHandle
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.state.local_state import LocalState


class StateBackend(Protocol[Frame]):
    """Keeps the rows of one state in an engine, reads and writes them. Safe to use from several threads."""

    owned: KeyGroupRange
    """The key groups of the subtask."""

    attempt: str
    """The attempt, in the names of what it writes and holds."""

    merge_at: int
    """So many segments of one level become one."""

    local: LocalState[Frame]
    """The segments that are still here of checkpoints of the subtask, whichever attempt has made them."""

    def keep(self, rows: Frame) -> Segment[Frame] | None:
        """Compute rows of state now and keep them; None, and nothing is kept, where there are none."""

    def read(self, readings: Sequence[Reading[Frame]]) -> Frame:
        """The rows of segments within their bounds."""

    def merge(self, rows: Frame, *, are_oldest: bool) -> Frame:
        """State with fewer rows, or the same; `are_oldest` where no older rows are left beside these."""

    def load(self, part: StatePart) -> Frame:
        """The rows behind the handles of a checkpoint, of the key groups that they are read for."""

    def write(
        self, parts: Sequence[tuple[str, Unwritten[Frame]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        """Write the segments of each part, by its id, into the folder of a savepoint or beside the job's checkpoints.

        The handles of the parts in their order, each when it is durable; nothing of a part stays that has none.
        """

    def delete(self, handle: Handle) -> None:
        """Delete what was written, as far as that is possible."""

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        """True if segments that another attempt has left may stay where they are, in memory or not."""

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Add a holder to segments, or (None) the state itself."""

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Let go of segments: those of a holder, or (None) the state's own."""

    def in_background(self, work: Callable[[], None]) -> None:
        """Merge segments: beside the stages where they may change meanwhile, else at once."""

    def check(self) -> None:
        """Raise where the attempt is over."""
