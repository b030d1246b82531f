"""The interface of state backends, by which an engine stores, reads and writes the rows of keyed state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from flykka.actors.machines.state.keyed_state import Handle, StatePart
from flykka.actors.machines.state.segments import Frame, Reading, Segment, Unwritten
from flykka.messages.state.handles import KeyGroupRange, SharedStateHandle
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.state.local_state import LocalState


class StateBackend(Protocol[Frame]):
    """Thread-safe."""

    owned: KeyGroupRange

    attempt: str
    """The attempt's name, a prefix of its files and holders."""

    merge_at: int
    """The number of segments of one level that are merged into one segment."""

    local: LocalState[Frame]
    """Segments of the subtask's checkpoints that are still on the executors, from any attempt."""

    def keep(self, rows: Frame) -> Segment[Frame] | None:
        """Compute rows of state now and store them as a segment. Return None if there are no rows."""

    def read(self, readings: Sequence[Reading[Frame]]) -> Frame: ...

    def merge(self, rows: Frame, *, are_oldest: bool) -> Frame:
        """Return the state with the same or fewer rows. `are_oldest` is true if no older rows exist."""

    def load(self, part: StatePart) -> Frame:
        """Return the rows of a checkpoint's handles, restricted to the key groups of `part`."""

    def write(
        self, parts: Sequence[tuple[str, Unwritten[Frame]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        """Write the segments of each part under its id, into the folder of a savepoint or of the job's checkpoints.

        Yields the handles in the order of the parts, each when it is durable. If a part cannot be written, its files
        are deleted.
        """

    def delete(self, handle: Handle) -> None:
        """Try to delete written files; failures are ignored."""

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        """Return True if segments of another attempt can be used without a copy, in memory or on disk."""

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Add a holder to segments; a None holder is the state itself."""

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Release the segments of a holder; a None holder is the state itself."""

    def in_background(self, work: Callable[[], None]) -> None:
        """Merge segments: in parallel to stages if segments may change during the merge, else at once."""

    def check(self) -> None: ...
