"""The snapshots of one attempt: what is noted at the barrier, what is written behind it, what a restore reads.

At the barrier, in the order of the stages, everything is a value in memory. The rest is background work: the fired rows
are staged, new state is written, and the handles are told. When the checkpoint completes, the sinks commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from flykka.actors.state.key_groups import key_groups_of
from flykka.actors.state.operator_state import elements_of, list_state
from flykka.messages.message import Value
from flykka.messages.operator_state import COMMITTABLES
from flykka.messages.state import ExclusiveStateHandle, OperatorSubtaskState, TaskStateSnapshot
from flykka.spark_bridge.sinks.sink_rows import SinkRowCounter
from flykka.spark_bridge.stages.partitioning import KeyGroups
from flykka.spark_bridge.stages.segment_blocks import read_segments
from flykka.spark_bridge.stages.window_operator import StateAtBarrier, WindowOperator
from flykka.spark_bridge.state.savepoint import exclusive, into_savepoint
from flykka.spark_bridge.state.segments import Written
from flykka.spark_bridge.state.storage import shared_folder, write_state
from flykka.spark_bridge.state.window_state import restored_windows, window_state

if TYPE_CHECKING:
    from flykka.messages.ids import OperatorId
    from flykka.messages.stage import SinkRows
    from flykka.messages.state import KeyGroupRange, SharedStateHandle
    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.scope import AttemptScope
    from flykka.spark_bridge.services import Services
    from flykka.spark_bridge.sinks.sink import SinkWriter, Staged

StagedBySink = tuple[tuple["OperatorId", "Staged"], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """The attempt's state as it was at a barrier; `savepoint` is the folder of the savepoint that it is for, if any."""

    checkpoint_id: int
    windows: StateAtBarrier | None
    staged: StagedBySink
    savepoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSnapshot:
    """A snapshot that is durable; bytes in all and newly written ones."""

    state: TaskStateSnapshot
    size_bytes: int
    incremental_bytes: int


class Snapshotter:
    """Takes the snapshots of one attempt. `windows` is None where the chain has none."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        services: Services,
        scope: AttemptScope,
        windows: WindowOperator | None,
        writers: Mapping[OperatorId, SinkWriter],
    ) -> None:
        self._descriptor = descriptor
        self._scope = scope
        self._services = services
        self._windows = windows
        self._writers = writers
        self._lock = Lock()
        self._staged: StagedBySink = ()
        self._sink_rows = SinkRowCounter()
        self._aborted: set[int] = set()

    @property
    def has_state(self) -> bool:
        """Whether there can be anything to write for a snapshot, or to commit."""
        return self._windows is not None or bool(self._writers)

    def restore(self, restore: TaskStateSnapshot | None) -> None:
        """Begin from a checkpoint: read its state, commit what the sinks have in it, discard what else was staged."""
        states: dict[OperatorId, list[OperatorSubtaskState]] = {}
        for state in restore.operators if restore is not None else ():
            states.setdefault(state.operator_id, []).append(state)
        for operator_id, writer in self._writers.items():
            writer.restore(elements_of(states.get(operator_id, ()), COMMITTABLES, Value))
        if self._windows is not None:
            self._restore_windows(self._windows, states.get(self._head, []))

    def note_staged(self, staged: StagedBySink) -> None:
        """Files were staged by a stage; they belong to the checkpoint whose barrier comes next."""
        with self._lock:
            self._stage(staged)

    def sink_rows(self) -> SinkRows | None:
        """How many rows the sinks have written and published since this was asked last; None where there are none."""
        with self._lock:
            return self._sink_rows.news()

    def at_barrier(self, checkpoint_id: int, staged: StagedBySink, savepoint: str | None = None) -> Barrier:
        """Note the state as it is now, in the order of the stages; `staged` was fired before the barrier."""
        with self._lock:
            self._stage(staged)
            staged, self._staged = self._staged, ()
            self._sink_rows.at_barrier(checkpoint_id)
        windows = None
        if self._windows is not None:
            windows = self._windows.at_barrier(checkpoint_id, everything=savepoint is not None)
        return Barrier(checkpoint_id=checkpoint_id, windows=windows, staged=staged, savepoint=savepoint)

    def prepare_commit(self, barrier: Barrier, staged: StagedBySink) -> tuple[OperatorSubtaskState, ...]:
        """The sinks' part of a snapshot, with what was `staged` for it since the barrier.

        From here on this is in every snapshot to come, whatever becomes of this one. So it is called for each
        barrier, in their order. Background work.
        """
        with self._lock:
            self._sink_rows.stage_for(barrier.checkpoint_id, sum(batch.rows for _, batch in staged))
        states: list[OperatorSubtaskState] = []
        for operator_id, writer in self._writers.items():
            names = tuple(
                name for sink, batch in barrier.staged + staged if sink == operator_id for name in batch.names
            )
            kept = writer.prepare_commit(barrier.checkpoint_id, names)
            if kept:
                committables = list_state(COMMITTABLES, kept)
                states.append(OperatorSubtaskState(operator_id=operator_id, operator_state=(committables,)))
        return tuple(states)

    def abort(self, checkpoint_id: int) -> None:
        """Nobody waits for this snapshot any more: if its state is not being written yet it need not be."""
        if not self.has_state:
            return
        with self._lock:
            self._aborted.add(checkpoint_id)

    def write(self, barrier: Barrier, sinks: tuple[OperatorSubtaskState, ...]) -> WrittenSnapshot | None:
        """Make a snapshot durable; None where it was aborted before. Background work."""
        if self._is_aborted(barrier.checkpoint_id):
            if self._windows is not None and barrier.windows is not None:
                self._windows.written(barrier.windows, ())
            return None
        try:
            written = self._written(barrier, sinks)
            if barrier.savepoint is not None:
                # Nobody would hear of what an attempt has put there that is over.
                self._scope.check()
        except BaseException:
            if barrier.savepoint is not None:
                self._take_out(barrier.savepoint)
            raise
        return written

    def _written(self, barrier: Barrier, sinks: tuple[OperatorSubtaskState, ...]) -> WrittenSnapshot:
        states, written = sinks, 0
        if barrier.savepoint is not None:
            states = self._copied(sinks, barrier.savepoint)
        if barrier.windows is not None:
            state, written = self._write_windows(barrier.windows, barrier)
            states = (state, *states)
        return WrittenSnapshot(
            state=TaskStateSnapshot(operators=states),
            size_bytes=sum(map(_size_bytes, states)),
            incremental_bytes=written,
        )

    def commit(self, checkpoint_id: int) -> tuple[tuple[str, ...], SinkRows | None]:
        """A checkpoint is complete: let the sinks commit; the published files, and what is new of the sinks' rows."""
        if self._windows is not None:
            self._windows.confirm(checkpoint_id)
        files = tuple(file for writer in self._writers.values() for file in writer.commit(checkpoint_id))
        with self._lock:
            self._sink_rows.commit(checkpoint_id)
            # In one piece: what a commit publishes is told with its checkpoint, and with no stage.
            return files, self._sink_rows.news()

    def _stage(self, staged: StagedBySink) -> None:
        self._staged += staged
        for _, batch in staged:
            if batch.names:
                self._sink_rows.stage(batch.rows)
            else:
                # The sink has shown them already: it has no names to publish them by.
                self._sink_rows.show(batch.rows)

    def _is_aborted(self, checkpoint_id: int) -> bool:
        with self._lock:
            aborted = checkpoint_id in self._aborted
            # Snapshots are written in their order: nobody asks for these again.
            self._aborted = {later for later in self._aborted if later > checkpoint_id}
            return aborted

    @property
    def _head(self) -> OperatorId:
        return self._descriptor.vertex.operators[0].operator_id

    @property
    def _owned(self) -> KeyGroupRange:
        vertex = self._descriptor.vertex
        return key_groups_of(self._descriptor.subtask, vertex.max_parallelism, vertex.parallelism)

    def _copied(self, sinks: tuple[OperatorSubtaskState, ...], savepoint: str) -> tuple[OperatorSubtaskState, ...]:
        """The sinks' part of a savepoint, with what they have staged in a folder of its own for each."""
        filesystem, copied = self._services.filesystem, []
        for sink in sinks:
            folder = filesystem.qualified(f"{savepoint}/{self._descriptor.attempt}-{sink.operator_id}")
            prepared = into_savepoint(filesystem, elements_of([sink], COMMITTABLES, Value), folder)
            size = sum(file.size_bytes for file in filesystem.files_below(folder))
            handles = (ExclusiveStateHandle(path=folder, size_bytes=size),) if prepared else ()
            copied.append(replace(sink, operator_state=(list_state(COMMITTABLES, prepared),), exclusive=handles))
        return tuple(copied)

    def _take_out(self, savepoint: str) -> None:
        """Delete all that the subtask has put into a savepoint, and with the last of it the folder.

        Whoever has given the savepoint up has deleted the folder, maybe before the subtask wrote there.
        """
        filesystem = self._services.filesystem
        for part in filesystem.list(savepoint):
            if part.name.startswith(f"{self._descriptor.attempt}-"):
                filesystem.delete(part.path)
        filesystem.delete_if_empty(savepoint)

    def _write_windows(self, state: StateAtBarrier, barrier: Barrier) -> tuple[OperatorSubtaskState, int]:
        assert self._windows is not None
        checkpoint_id, is_shared = barrier.checkpoint_id, barrier.savepoint is None
        written: tuple[Written, ...] = ()
        try:
            handles = self._write(state, barrier)
            written = tuple(Written(handles=(handle,), checkpoint_id=checkpoint_id) for handle in handles)
        finally:
            # No later checkpoint may refer to what is a savepoint's own.
            self._windows.written(state, written if is_shared else ())
        parts = {**state.durable, **dict(zip(written, (part.closed_to_ms for part in state.to_write), strict=True))}
        snapshot = window_state(self._head, self._owned, state.emitted_to_ms, parts)
        return snapshot if is_shared else exclusive(snapshot), sum(handle.size_bytes for handle in handles)

    def _write(self, state: StateAtBarrier, barrier: Barrier) -> tuple[SharedStateHandle, ...]:
        descriptor, filesystem, checkpoint_id = self._descriptor, self._services.filesystem, barrier.checkpoint_id
        handles: list[SharedStateHandle] = []
        paths: list[str] = []
        try:
            for number, part in enumerate(state.to_write):
                state_id = f"{descriptor.attempt}-{checkpoint_id}" + (f"-{number}" if number else "")
                shared = shared_folder(descriptor.checkpoint_directory, descriptor.job_id, state_id)
                paths.append(shared if barrier.savepoint is None else f"{barrier.savepoint}/{state_id}")
                rows = sum(reading.segment.rows for reading in part.readings)
                state_rows = read_segments(part.readings)
                handles.append(write_state(filesystem, state_rows, rows, paths[-1], state_id, self._owned))
        except BaseException:
            for path in paths:
                filesystem.delete(path)
            raise
        return tuple(handles)

    def _restore_windows(self, windows: WindowOperator, states: list[OperatorSubtaskState]) -> None:
        groups = KeyGroups(keys=windows.code.plan.keys, max_parallelism=self._descriptor.vertex.max_parallelism)
        restored = restored_windows(self._services.session, states, groups)
        windows.restore(restored.emitted_to_ms, restored.parts)


def _size_bytes(state: OperatorSubtaskState) -> int:
    own = sum(len(element) for each in state.operator_state for element in each.elements)
    shared = sum(handle.size_bytes for handle in state.shared)
    return own + len(state.keyed_state) + shared + sum(handle.size_bytes for handle in state.exclusive)
