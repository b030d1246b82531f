"""State of checkpoints that is still on the executors, so that a restarted subtask need not read the checkpoint.

Follows Flink's TaskLocalStateStore. No copy is made: the segments that were live at a checkpoint's barrier are held
until a later checkpoint completes, even if they have been merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, Generic, Protocol

from flykka.actors.machines.state.segments import Frame, Segment
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.wire.ids import BatchId, JobVertexId

Handles = tuple[SharedStateHandle, ...]


class Holders(Protocol):
    def hold(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def release(self, batch_ids: Iterable[BatchId], holder: str) -> None: ...

    def is_whole(self, batch_id: BatchId) -> bool: ...


class LocalState(Generic[Frame]):
    """Segments of one subtask by checkpoint, each with its location in the checkpoint. Thread-safe."""

    def __init__(self, subtask: str, store: Holders) -> None:
        self._subtask = subtask
        self._store = store
        self._lock = Lock()
        self._checkpoints: dict[int, list[Segment[Frame]]] = {}
        self._closed = False

    def keep(self, checkpoint_id: int, segments: Sequence[Segment[Frame]]) -> None:
        """Hold segments that contain some of the state at a checkpoint's barrier. The caller must hold them too."""
        with self._lock:
            if not self._closed:
                self._store.hold(_batches(segments), self._holder(checkpoint_id))
                self._checkpoints.setdefault(checkpoint_id, []).extend(segments)

    def confirm(self, checkpoint_id: int) -> None:
        """Release the segments of all checkpoints before a completed checkpoint: they are never restored."""
        with self._lock:
            if checkpoint_id in self._checkpoints:
                self._release([each for each in self._checkpoints if each < checkpoint_id])

    def find(self, state_ids: frozenset[str]) -> dict[Handles, list[Segment[Frame]]]:
        """Return complete and undamaged segments of handles among `state_ids`, newest checkpoint first."""
        segments_by_handles: dict[Handles, list[Segment[Frame]]] = {}
        missing = set(state_ids)
        with self._lock:
            for checkpoint_id in sorted(self._checkpoints, reverse=True):
                for handles, segments in _by_handles(self._checkpoints[checkpoint_id]).items():
                    ids = {handle.state_id for handle in handles}
                    if ids <= missing and all(self._store.is_whole(each.batch_id) for each in segments):
                        segments_by_handles[handles] = segments
                        missing -= ids
        return segments_by_handles

    def close(self) -> None:
        """Release all segments, and hold no more."""
        with self._lock:
            self._closed = True
            self._release(list(self._checkpoints))

    def _release(self, checkpoint_ids: Sequence[int]) -> None:
        for checkpoint_id in checkpoint_ids:
            self._store.release(_batches(self._checkpoints.pop(checkpoint_id)), self._holder(checkpoint_id))

    def _holder(self, checkpoint_id: int) -> str:
        return f"local state of {self._subtask} at checkpoint {checkpoint_id}"


class LocalStates:
    """The local states of a job's subtasks, which are empty unless `is_on`. Thread-safe."""

    def __init__(self, store: Holders, *, is_on: bool = True) -> None:
        self._store = store
        self._is_on = is_on
        self._lock = Lock()
        self._by_vertex: dict[JobVertexId, tuple[int, dict[int, LocalState[Any]]]] = {}

    def of(self, vertex_id: JobVertexId, subtask: int, parallelism: int) -> LocalState[Any]:
        with self._lock:
            before, states = self._by_vertex.get(vertex_id, (parallelism, {}))
            if before != parallelism:
                _close(states.values())
                states = {}
            self._by_vertex[vertex_id] = parallelism, states
            state = states.setdefault(subtask, LocalState(f"{vertex_id}/{subtask}", self._store))
            if not self._is_on:
                state.close()
            return state

    def close(self) -> None:
        """Release all segments, because their storage is gone or the job has ended."""
        with self._lock:
            for _, states in self._by_vertex.values():
                _close(states.values())
            self._by_vertex.clear()


def _close(states: Iterable[LocalState[Any]]) -> None:
    for state in states:
        state.close()


def _batches(segments: Sequence[Segment[Frame]]) -> list[BatchId]:
    return [segment.batch_id for segment in segments]


def _by_handles(segments: Sequence[Segment[Frame]]) -> dict[Handles, list[Segment[Frame]]]:
    by_handles: dict[Handles, list[Segment[Frame]]] = {}
    for segment in segments:
        assert segment.written is not None, "a segment of the checkpoint was not written"
        by_handles.setdefault(segment.written.handles, []).append(segment)
    return by_handles
