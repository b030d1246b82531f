"""Writes a savepoint for a program: the state of some operators from DataFrames, all other state from a savepoint.

This is like Flink's SavepointWriter, but the program itself provides the keys and states of its operators.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fsspec.core import url_to_fs

from flykka.actors.checkpoint_storage.private_files import restrict
from flykka.actors.checkpoint_storage.storage import CheckpointStorage, discard_savepoint, initialize_savepoint
from flykka.actors.checkpoint_storage.verification import state_handles
from flykka.actors.errors import CheckpointDirectoryError
from flykka.actors.machines.state.assignment import current_ids, under_current_ids
from flykka.actors.machines.state.handles import operator_metadata, with_operators, with_paths
from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.keyed_state import keyed_state, restored_keyed_state
from flykka.actors.machines.state.segments import ResultBounds
from flykka.client.checkpoints import find_checkpoint, operators_of
from flykka.client.saved_state import WITH_TIMERS, keyed_operators, keyed_states_of, max_parallelism_of, state_in
from flykka.errors import SavepointError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, SnapshotType, TaskStateEntry
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.state.handles import OperatorSubtaskState, StateSchema, TaskStateSnapshot
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import SavedStateError
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.spark_keyed_batches import KeyedCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.saved_state.writing import WrittenState, write_keyed_rows, write_panes
from flykka.spark_bridge.state.file_digests import StateFiles, seal, verify_handles

if TYPE_CHECKING:
    from flykka.spark_bridge.program.prototype import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    rows: DataFrame
    timers: DataFrame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    vertex: JobVertex
    operator: Operator
    code: OperatorCode
    schema: StateSchema


@dataclass(slots=True)
class SavepointWriter:
    """Writes savepoints for one program, from its job graph and the code of its operators by uid."""

    job_graph: JobGraph
    codes: Mapping[str, OperatorCode]
    _places: dict[str, tuple[JobVertex, Operator]] = field(init=False)

    def __post_init__(self) -> None:
        self._places = {
            operator.ref.uid: (vertex, operator) for vertex in self.job_graph.vertices for operator in vertex.operators
        }

    def write(self, path: str, states: Mapping[str, StateRows], existing: str | None) -> str:
        """Write the savepoint and return its path. If this fails, nothing is written. See `flykka.state.write`."""
        places = {uid: self._place(uid) for uid in states}
        before = None if existing is None else self._existing(existing)
        folder = _create_folder(path)
        try:
            replaced = {place.operator.operator_id for place in places.values()}
            copied = None if before is None else _copied(_without(before, replaced), folder)
            entries = [
                entry
                for number, (uid, place) in enumerate(places.items())
                for entry in self._write_state(place, states[uid], before, f"{folder}/state-{number}")
            ]
            savepoint = self._assembled(copied, places, entries)
            return CheckpointStorage(folder).write_metadata(savepoint, folder)
        except BaseException:
            discard_savepoint(folder)
            raise

    def _place(self, uid: str) -> _Place:
        if uid not in self._places:
            raise SavedStateError(f"the program has no operator {uid!r}; it has {', '.join(map(repr, self._places))}")
        (vertex, operator), code = self._places[uid], self.codes[uid]
        if not isinstance(code, WindowCode | KeyedCode) or code.state_schema is None:
            keyed = [
                each
                for each, (_, other) in self._places.items()
                if other.state_schema is not None and other.state_schema.is_keyed
            ]
            there = ", ".join(map(repr, keyed)) or "none"
            raise SavedStateError(f"{uid!r} ({operator.name}) keeps no keyed state; operators that do: {there}")
        return _Place(vertex=vertex, operator=operator, code=code, schema=code.state_schema)

    def _existing(self, path: str) -> CompletedCheckpoint:
        savepoint = find_checkpoint(path, "")
        if savepoint.snapshot_type is not SnapshotType.SAVEPOINT:
            raise SavepointError(
                f"{path!r} is a checkpoint, whose files its job may delete: pass a savepoint, as trigger_savepoint()"
                " takes it"
            )
        ids = current_ids(self.job_graph.vertices)
        operators = (
            replace(each, operator_id=ids.get(each.operator_id, each.operator_id))
            for each in operators_of(savepoint).values()
        )
        return replace(under_current_ids(savepoint, self.job_graph.vertices), operators=tuple(operators))

    def _write_state(
        self, place: _Place, state: StateRows, before: CompletedCheckpoint | None, folder: str
    ) -> Iterator[TaskStateEntry]:
        uid, vertex = place.operator.ref.uid, place.vertex
        max_parallelism = _max_parallelism(vertex, before)
        if isinstance(place.code, WindowCode):
            if state.timers is not None:
                raise SavedStateError(f"{uid!r} keeps no timers")
            handle = write_panes(uid, place.code, place.schema, state.rows, folder)
            handles = [WrittenState(key_groups=key_groups_of(0, max_parallelism, 1), handle=handle)]
        else:
            assert isinstance(place.code, KeyedCode), "the operator keeps no keyed state"
            handles = write_keyed_rows(
                uid,
                place.code,
                place.schema,
                state.rows,
                state.timers if state.timers is not None else _timers_before(place, before),
                folder,
                max_parallelism=max_parallelism,
                parallelism=vertex.parallelism,
            )
        bounds = _bounds(place, before)
        for subtask, each in enumerate(handles):
            empty = keyed_state(place.operator.operator_id, each.key_groups, {}, bounds=bounds)
            operator_state = replace(empty, exclusive=() if each.handle is None else (each.handle,))
            yield TaskStateEntry(
                vertex_id=vertex.vertex_id,
                subtask=subtask,
                parallelism=len(handles),
                max_parallelism=max_parallelism,
                state=TaskStateSnapshot(operators=(operator_state,)),
            )

    def _assembled(
        self, before: CompletedCheckpoint | None, places: Mapping[str, _Place], entries: list[TaskStateEntry]
    ) -> CompletedCheckpoint:
        now = operator_metadata(self.job_graph)
        if before is None:
            return CompletedCheckpoint(
                job_id=self.job_graph.job_id,
                job_name=self.job_graph.name,
                checkpoint_id=1,
                timestamp_ms=time.time_ns() // 1_000_000,
                duration_ms=0,
                snapshot_type=SnapshotType.SAVEPOINT,
                task_states=tuple(entries),
                operators=now,
                session_settings=self.job_graph.session_settings,
            )
        replaced = {place.operator.operator_id for place in places.values()}
        new = {each.operator_id: each for each in now if each.operator_id in replaced}
        operators = [new.pop(each.operator_id, each) for each in before.operators]
        return replace(
            before,
            timestamp_ms=time.time_ns() // 1_000_000,
            task_states=(*before.task_states, *entries),
            operators=(*operators, *new.values()),
        )


def _create_folder(path: str) -> str:
    directory, _, name = path.rstrip("/").rpartition("/")
    try:
        return initialize_savepoint(directory, name)
    except CheckpointDirectoryError as refusal:
        raise SavepointError(str(refusal)) from None


def _without(savepoint: CompletedCheckpoint, replaced: set[OperatorId]) -> CompletedCheckpoint:
    """Remove the keyed state of these operators. Their operator state is kept."""

    def kept(state: OperatorSubtaskState) -> OperatorSubtaskState:
        if state.operator_id not in replaced or state.key_groups is None:
            return state
        return OperatorSubtaskState(operator_id=state.operator_id, operator_state=state.operator_state)

    return with_operators(savepoint, kept)


def _copied(savepoint: CompletedCheckpoint, folder: str) -> CompletedCheckpoint:
    from flykka.spark_bridge.session.session import spark_session

    session = spark_session()
    filesystem, copies = FileSystem(session), dict[str, str]()

    handles = [handle.path for handle in state_handles(savepoint)]

    def copy(path: str) -> str:
        # Files staged by sinks are in the folder of a handle.
        for handle in handles:
            if path.startswith(f"{handle}/"):
                return copy(handle) + path.removeprefix(handle)
        if path not in copies:
            kept = f"{folder}/kept-{len(copies)}"
            copies[path] = f"{kept}/{path.rsplit('/', 1)[-1]}"
            filesystem.copy(path, copies[path])
            restrict(*url_to_fs(kept))
        return copies[path]

    copied = with_paths(savepoint, copy)
    files = StateFiles(filesystem=filesystem, session=session, sync=True)
    sealed = {
        path: files.seal(filesystem.qualified(path), folder)
        if filesystem.is_folder(path)
        else seal(session, [path], path.rsplit("/", 1)[0], within=folder)
        for path in copies.values()
    }

    def verified(state: OperatorSubtaskState) -> OperatorSubtaskState:
        verify_handles(session, state.exclusive)
        return replace(state, exclusive=tuple(replace(each, files=sealed[each.path]) for each in state.exclusive))

    return with_operators(copied, verified)


def _max_parallelism(vertex: JobVertex, before: CompletedCheckpoint | None) -> int:
    """Return the number of key groups. The savepoint's number comes first if it contains state of an operator in the
    vertex.
    """
    if before is not None:
        ids = {operator.operator_id for operator in vertex.operators}
        for each in before.operators:
            if each.operator_id in ids:
                return max_parallelism_of(before, each)
    return vertex.max_parallelism


def _timers_before(place: _Place, before: CompletedCheckpoint | None) -> DataFrame | None:
    with_timers = (
        [] if before is None else [each.operator_id for each in keyed_operators(before) if each.kind in WITH_TIMERS]
    )
    if before is None or place.operator.operator_id not in with_timers:
        return None
    return state_in(before, place.operator.ref.uid).timers()


def _bounds(place: _Place, before: CompletedCheckpoint | None) -> ResultBounds:
    """Return the starts of the last window that has ended, and of the last window that has fired, in `before`.

    Raises:
        SavedStateError: subtasks have fired different overlapping windows, so panes cannot be assigned to both.
    """
    states = [] if before is None else keyed_states_of(before, place.operator.operator_id)
    restored = restored_keyed_state(states)
    bounds = {part.bounds.closed_to_ms for parts in restored.parts.values() for part in parts}
    if len(bounds) > 1 and isinstance(place.code, WindowCode) and place.code.windows.overlap:
        raise SavedStateError(
            f"the subtasks of {place.operator.ref.uid!r} have fired different windows, which overlap: take another"
            " savepoint, or one at parallelism 1"
        )
    return restored.bounds
