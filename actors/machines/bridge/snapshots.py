"""The snapshots of an attempt: what belongs to a checkpoint, what is written of it, and what becomes of one given up.

At the barrier, in the order of the stages, everything is noted. Behind it, in the background and in the order of the
barriers: what was staged is prepared to be committed, from then on it is in every snapshot to come, whatever becomes of
this one; then the state is written, unless the checkpoint was aborted meanwhile. Of sinks that were given nothing since
the last commit there is nothing to prepare, and nothing in the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.bridge.effects import DiscardSnapshot, PrepareCommit, Work, WriteSnapshot
from flykka.actors.machines.bridge.sink_rows import SinkRowCounter
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.bridge import CommitPrepared, SnapshotWritten, StagedOutput
from flykka.messages.tasks.stage import SinkRows, SnapshotState, StateSnapshotted


@dataclass(slots=True, kw_only=True, eq=False)
class Snapshot:
    """A snapshot that is being taken: what was staged for it, and how long its barrier has held the stages up."""

    command: SnapshotState
    staged: tuple[StagedOutput, ...]
    sync_ms: int
    begun_ms: int = 0
    rows_out: int = 0

    def prepare(self) -> Work:
        """The work of a snapshot that is done even if the checkpoint is aborted."""
        return PrepareCommit(checkpoint_id=self.command.checkpoint_id, staged=self.staged)

    def written(self, written: SnapshotWritten, sink_rows: SinkRows | None, now: int) -> StateSnapshotted:
        """The report of a snapshot that is durable."""
        return StateSnapshotted(
            checkpoint_id=self.command.checkpoint_id,
            state=TaskStateSnapshot(operators=written.operators),
            size_bytes=sum(map(_size_bytes, written.operators)),
            incremental_bytes=written.incremental_bytes,
            sync_ms=self.sync_ms,
            async_ms=now - self.begun_ms,
            rows_out=self.rows_out,
            sink_rows=sink_rows,
        )


class Snapshots:
    """The snapshots of an attempt: output staged since the last barrier, its rows, and the aborted checkpoints."""

    def __init__(self) -> None:
        self.sink_rows = SinkRowCounter()
        self._staged: tuple[StagedOutput, ...] = ()
        self._aborted: set[int] = set()
        # The newest checkpoint that something was staged or prepared for, until it is committed.
        self._to_commit: int | None = None

    @property
    def has_output(self) -> bool:
        """Something was staged, and is not committed."""
        return bool(self._staged) or self._to_commit is not None

    def note_staged(self, staged: tuple[StagedOutput, ...]) -> None:
        """A stage has staged output, which belongs to the checkpoint whose barrier comes next."""
        self._staged += staged
        for each in staged:
            if each.names:
                self.sink_rows.stage(each.rows)
            else:
                # The sink has shown them already: it has no names to publish them by.
                self.sink_rows.show(each.rows)

    def at_barrier(self, command: SnapshotState, sync_ms: int) -> Snapshot:
        """The barrier is here: what was staged before it is this checkpoint's."""
        staged, self._staged = self._staged, ()
        if staged:
            self._to_commit = command.checkpoint_id
        self.sink_rows.at_barrier(command.checkpoint_id)
        return Snapshot(command=command, staged=staged, sync_ms=sync_ms)

    def commit(self, checkpoint_id: int) -> SinkRows | None:
        """The checkpoint is complete, and its output and all before it are published; the rows of that."""
        if self._to_commit is not None and checkpoint_id >= self._to_commit:
            self._to_commit = None
        self.sink_rows.commit(checkpoint_id)
        return self.sink_rows.news()

    def abort(self, checkpoint_id: int) -> None:
        """The checkpoint will not be complete.

        Nothing is undone: staged files stay pending and are published with the next checkpoint, and state that was
        written for this one is written again, for only complete checkpoints are referred to.
        """
        self._aborted.add(checkpoint_id)

    def on_prepared(self, snapshot: Snapshot, prepared: CommitPrepared, *, has_state: bool) -> Work | None:
        """The next work: write the state, or release it where the checkpoint was aborted."""
        command = snapshot.command
        snapshot.rows_out = prepared.rows_out
        if prepared.sinks:
            self._to_commit = max(command.checkpoint_id, self._to_commit or 0)
        self.sink_rows.stage_for(command.checkpoint_id, prepared.rows_staged)
        aborted = command.checkpoint_id in self._aborted
        # Snapshots are written in their order: nothing asks for these again.
        self._aborted = {later for later in self._aborted if later > command.checkpoint_id}
        if aborted:
            return DiscardSnapshot(checkpoint_id=command.checkpoint_id) if has_state else None
        savepoint = command.options.target_location
        return WriteSnapshot(checkpoint_id=command.checkpoint_id, savepoint=savepoint, sinks=prepared.sinks)


def nothing_written(checkpoint_id: int) -> StateSnapshotted:
    """The report of the snapshot of a chain that has no state, and nothing to commit."""
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(),
        size_bytes=0,
        incremental_bytes=0,
        sync_ms=0,
        async_ms=0,
        awaits_commit=False,
    )


def _size_bytes(state: OperatorSubtaskState) -> int:
    own = sum(len(element) for each in state.operator_state for element in each.elements)
    shared = sum(handle.size_bytes for handle in state.shared)
    return own + len(state.keyed_state) + shared + sum(handle.size_bytes for handle in state.exclusive)
