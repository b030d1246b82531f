"""The interface of state backends: an engine stores, reads and writes the rows of keyed state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from flykka.actors.machines.state.keyed_state import Handle, StatePart
from flykka.actors.machines.state.segments import Frame, Reading, Segment, Unwritten
from flykka.messages.state.handles import KeyGroupRange, SharedStateHandle
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.state.local_state import LocalState


class StateBackend(Protocol[Frame]):
    """Stores, reads and writes the rows of one state in an engine. Thread-safe."""

    owned: KeyGroupRange
    """The key groups of the subtask."""

    attempt: str
    """The attempt, used in the names of its files and holders."""

    merge_at: int
    """Number of segments of one level that are merged into one."""

    local: LocalState[Frame]
    """Segments of the subtask's checkpoints that are still on the executors, from any attempt."""

    def keep(self, rows: Frame) -> Segment[Frame] | None:
        """Compute rows of state now and store them as a segment; None if there are no rows."""

    def read(self, readings: Sequence[Reading[Frame]]) -> Frame: ...

    def merge(self, rows: Frame, *, are_oldest: bool) -> Frame:
        """Return state with fewer rows, or the same; `are_oldest` if there are no older rows than these."""

    def load(self, part: StatePart) -> Frame:
        """Return the rows of the handles of a checkpoint, restricted to the key groups to read."""

    def write(
        self, parts: Sequence[tuple[str, Unwritten[Frame]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        """Write the segments of each part, by its id, into the folder of a savepoint or of the job's checkpoints.

        Yields the handles in the order of the parts, each when it is durable; deletes the files of a part that gets no
        handle.
        """

    def delete(self, handle: Handle) -> None:
        """Delete written files as far as possible."""

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        """Return True if segments left by another attempt may stay where they are, in memory or not."""

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Add a holder to segments; None stands for the state itself."""

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Release the segments of a holder; None stands for the state itself."""

    def in_background(self, work: Callable[[], None]) -> None:
        """Merge segments: in parallel to stages if they may change meanwhile, else at once."""

    def check(self) -> None:
        """Raise if the attempt was cancelled."""
