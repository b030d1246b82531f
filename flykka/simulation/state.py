"""The keyed state of a simulated attempt: the real state stores and windows, on countable rows.

A late row is emitted at once as a separate result, so that no row is lost, and the expected output is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Generic

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.keyed_state import Handle, StatePart
from flykka.actors.machines.state.segments import Reading, Segment, Unwritten
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId
from flykka.simulation.environment import Environment
from flykka.simulation.operators import Window
from flykka.simulation.rows import Row, Rows, Stored, size_of, within
from flykka.spark_bridge.operators.operator import Element
from flykka.spark_bridge.operators.window import Arrived
from flykka.spark_bridge.state.local_state import LocalState


class SimulatedStateBackend(ABC, Generic[Stored]):
    """Implements `StateBackend`: a segment consists of rows, and is written as a file."""

    merge_at = 4
    name = ""
    """The name of the state in the ids of its segments, if an operator has several states."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, environment: Environment) -> None:
        vertex = descriptor.vertex
        self.owned = key_groups_of(descriptor.subtask, vertex.max_parallelism, vertex.parallelism)
        self.attempt: str = descriptor.attempt
        self.local: LocalState[tuple[Stored, ...]] = environment.local_states_of(descriptor.job_id).of(
            vertex.vertex_id, descriptor.subtask, vertex.parallelism
        )
        self._shared = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/shared"
        self.max_parallelism = vertex.max_parallelism
        self._environment = environment
        self._numbers = count()

    def new_id(self) -> BatchId:
        return BatchId(f"{self.attempt}/{self.name}segment-{next(self._numbers)}")

    @abstractmethod
    def read(self, readings: Sequence[Reading[tuple[Stored, ...]]]) -> tuple[Stored, ...]: ...

    def merge(self, rows: tuple[Stored, ...], *, are_oldest: bool) -> tuple[Stored, ...]:
        return rows

    def load(self, part: StatePart) -> tuple[Stored, ...]:
        loaded: list[Stored] = []
        for handle, key_groups in part.handles:
            rows: tuple[Stored, ...] = self._environment.storage.read(self._environment.path(handle.path))
            loaded += rows if key_groups is None else within(rows, key_groups, self.max_parallelism)
        return tuple(loaded)

    def write(
        self, parts: Sequence[tuple[str, Unwritten[tuple[Stored, ...]]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        for state_id, part in parts:
            rows, path = self.read(part.readings), f"{savepoint or self._shared}/{state_id}"
            self._environment.storage.write(self._environment.path(path), rows)
            yield SharedStateHandle(
                state_id=state_id, path=path, rows=len(rows), size_bytes=size_of(rows), key_groups=self.owned
            )

    def delete(self, handle: Handle) -> None:
        """Delete a file without storage faults, because no checkpoint would refer to an undeleted file."""
        self._environment.storage.files.pop(self._environment.path(handle.path), None)

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        return True

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None: ...

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None: ...

    def in_background(self, work: Callable[[], None]) -> None:
        work()

    def check(self) -> None: ...


class SimulatedWindowState(SimulatedStateBackend[Row]):
    def __init__(self, behaviour: Window, descriptor: TaskDeploymentDescriptor, environment: Environment) -> None:
        super().__init__(descriptor, environment)
        self._behaviour = behaviour

    def keep(self, rows: Rows) -> Segment[Rows] | None:
        starts = [self._start(row) for row in rows]
        if not starts:
            return None
        return Segment(batch_id=self.new_id(), frame=rows, rows=len(rows), first_ms=min(starts), last_ms=max(starts))

    def read(self, readings: Sequence[Reading[Rows]]) -> Rows:
        return tuple(row for reading in readings for row in reading.segment.frame if self._is_read(row, reading))

    def load(self, part: StatePart) -> Rows:
        closed_to = part.bounds.closed_to_ms
        return tuple(row for row in super().load(part) if closed_to is None or self._start(row) > closed_to)

    def _is_read(self, row: Row, reading: Reading[Rows]) -> bool:
        start_ms = self._start(row)
        return (
            (reading.from_ms is None or start_ms >= reading.from_ms)
            and (reading.until_ms is None or start_ms < reading.until_ms)
            and (reading.closed_to_ms is None or start_ms > reading.closed_to_ms)
        )

    def _start(self, row: Row) -> int:
        return self._behaviour.start_of(row.time_ms)


class SimulatedPanes:
    def __init__(self, behaviour: Window, backend: SimulatedWindowState, environment: Environment) -> None:
        self._behaviour = behaviour
        self._backend = backend
        self._environment = environment

    def arrived(self, element: Element[Rows], closed_to_ms: int | None) -> Arrived[Rows, Rows]:
        rows, behaviour = element.rows, self._behaviour
        assert rows == within(rows, self._backend.owned, self._backend.max_parallelism), (
            "rows have reached the wrong subtask"
        )
        late = tuple(
            row for row in rows if closed_to_ms is not None and behaviour.start_of(row.time_ms) <= closed_to_ms
        )
        self._environment.late_rows += len(late)
        segment = self._backend.keep(tuple(row for row in rows if row not in late))
        return Arrived(segment=segment, late_rows=len(late), results=behaviour.fired(late))

    def fired(self, readings: Sequence[Reading[Rows]], to_ms: int) -> Rows:
        return self._behaviour.fired(self._backend.read(readings))
