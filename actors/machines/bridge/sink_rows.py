"""SinkRowCounter: how many rows the sinks of one attempt have written and published."""

from __future__ import annotations

from flykka.messages.tasks.stage import SinkRows


class SinkRowCounter:
    """Counts by checkpoint what is staged: a commit publishes all that was staged up to its barrier.

    Not safe for several threads at once. An attempt that is restored begins at zero: rows that it publishes because its
    checkpoint holds them were written by an attempt before.
    """

    def __init__(self) -> None:
        self._written = self._published = 0
        self._since_barrier = 0
        self._pending: dict[int, int] = {}

    def show(self, rows: int) -> None:
        """Rows were written by a sink that shows them at once."""
        self._written += rows
        self._published += rows

    def stage(self, rows: int) -> None:
        """Rows were staged; they belong to the checkpoint whose barrier comes next."""
        self._written += rows
        self._since_barrier += rows

    def stage_for(self, checkpoint_id: int, rows: int) -> None:
        """Rows were staged behind the barrier of a checkpoint, and belong to it."""
        if rows:
            self._written += rows
            self._pending[checkpoint_id] = self._pending.get(checkpoint_id, 0) + rows

    def at_barrier(self, checkpoint_id: int) -> None:
        """Note a barrier: rows staged before are published when this checkpoint, or a later one, is complete."""
        if self._since_barrier:
            self._pending[checkpoint_id] = self._since_barrier
            self._since_barrier = 0

    def commit(self, checkpoint_id: int) -> None:
        """Everything that was staged up to the barrier of this checkpoint is published."""
        for pending in [each for each in self._pending if each <= checkpoint_id]:
            self._published += self._pending.pop(pending)

    def news(self) -> SinkRows | None:
        """Counts that have not been told yet, and count as told with this call; None where there are none."""
        if not self._written and not self._published:
            return None
        told = SinkRows(written=self._written, published=self._published)
        self._written = self._published = 0
        return told
