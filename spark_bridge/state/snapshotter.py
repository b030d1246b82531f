"""What the snapshots of one attempt write, what their commit publishes, and what a restore reads.

When what is done is decided by the machine of the attempt. All of it is background work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.state.operator_state import COMMITTABLES
from flykka.messages.tasks.bridge import SnapshotWritten
from flykka.messages.wire.message import Value
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.stages.segment_blocks import read_segments
from flykka.spark_bridge.state.savepoint import exclusive, into_savepoint
from flykka.spark_bridge.state.segments import Written
from flykka.spark_bridge.state.storage import shared_folder, write_state
from flykka.spark_bridge.state.window_state import restored_windows, window_state

if TYPE_CHECKING:
    from flykka.messages.state.handles import KeyGroupRange, SharedStateHandle, TaskStateSnapshot
    from flykka.messages.tasks.bridge import StagedOutput
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.services import Services
    from flykka.spark_bridge.connectors.sink import SinkWriter
    from flykka.spark_bridge.stages.window_operator import StateAtBarrier, WindowOperator


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

    def restore(self, restore: TaskStateSnapshot | None) -> None:
        """Begin from a checkpoint: read its state, commit what the sinks have in it, discard what else was staged."""
        states: dict[OperatorId, list[OperatorSubtaskState]] = {}
        for state in restore.operators if restore is not None else ():
            states.setdefault(state.operator_id, []).append(state)
        for operator_id, writer in self._writers.items():
            writer.restore(elements_of(states.get(operator_id, ()), COMMITTABLES, Value))
        if self._windows is not None:
            self._restore_windows(self._windows, states.get(self._head, []))

    def prepare_commit(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> tuple[OperatorSubtaskState, ...]:
        """The sinks' part of a snapshot, with what was `staged` for it; it is in every snapshot to come as well."""
        states: list[OperatorSubtaskState] = []
        for operator_id, writer in self._writers.items():
            names = tuple(name for each in staged if each.operator_id == operator_id for name in each.names)
            kept = writer.prepare_commit(checkpoint_id, names)
            if kept:
                committables = list_state(COMMITTABLES, kept)
                states.append(OperatorSubtaskState(operator_id=operator_id, operator_state=(committables,)))
        return tuple(states)

    def write(
        self,
        checkpoint_id: int,
        savepoint: str | None,
        state: StateAtBarrier | None,
        sinks: tuple[OperatorSubtaskState, ...],
    ) -> SnapshotWritten:
        """Make a snapshot durable; for a savepoint with copies of what the sinks have staged."""
        try:
            states, written = sinks if savepoint is None else self._copied(sinks, savepoint), 0
            if state is not None:
                windows, written = self._write_windows(state, checkpoint_id, savepoint)
                states = (windows, *states)
            if savepoint is not None:
                # Nobody would hear of what an attempt has put there that is over.
                self._scope.check()
        except BaseException:
            if savepoint is not None:
                self._take_out(savepoint)
            raise
        return SnapshotWritten(operators=states, incremental_bytes=written)

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """A checkpoint is complete: let the sinks commit; the published files."""
        if self._windows is not None:
            self._windows.confirm(checkpoint_id)
        return tuple(file for writer in self._writers.values() for file in writer.commit(checkpoint_id))

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

    def _write_windows(
        self, state: StateAtBarrier, checkpoint_id: int, savepoint: str | None
    ) -> tuple[OperatorSubtaskState, int]:
        assert self._windows is not None
        written: tuple[Written, ...] = ()
        try:
            handles = self._write(state, checkpoint_id, savepoint)
            written = tuple(Written(handles=(handle,), checkpoint_id=checkpoint_id) for handle in handles)
        finally:
            # No later checkpoint may refer to what is a savepoint's own.
            self._windows.written(state, written if savepoint is None else ())
        parts = {**state.durable, **dict(zip(written, (part.closed_to_ms for part in state.to_write), strict=True))}
        snapshot = window_state(self._head, self._owned, state.emitted_to_ms, parts)
        return snapshot if savepoint is None else exclusive(snapshot), sum(handle.size_bytes for handle in handles)

    def _write(self, state: StateAtBarrier, checkpoint_id: int, savepoint: str | None) -> tuple[SharedStateHandle, ...]:
        descriptor, filesystem = self._descriptor, self._services.filesystem
        handles: list[SharedStateHandle] = []
        paths: list[str] = []
        try:
            for number, part in enumerate(state.to_write):
                state_id = f"{descriptor.attempt}-{checkpoint_id}" + (f"-{number}" if number else "")
                shared = shared_folder(descriptor.checkpoint_directory, descriptor.job_id, state_id)
                paths.append(shared if savepoint is None else f"{savepoint}/{state_id}")
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
