"""The sources of a job on the JobMaster's side: their split enumerators and the discovery of new splits.

Mirrors Flink's SourceCoordinator and SourceCoordinatorContext. One enumerator per source operator decides which reader
gets which split; here it is decided when splits are discovered, what of a source belongs to a checkpoint, and what
happens when the tasks restart. At most one discovery of a source is under way at any time, also across restarts; one
that began before a restart brings nothing, and is followed by another. Where more is there than one discovery brings,
the next one follows when few splits are left.

Not here: the discovery itself, which may block, and at which attempt a subtask is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from flykka.actors.machines.effects import Ignore, LogWarning, StartTimer
from flykka.actors.machines.phases import next_phase
from flykka.actors.machines.sources.source_events import (
    AttemptEnded,
    DiscoverSplits,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    SplitEnumeratorEvent,
    SubtaskReset,
)
from flykka.actors.machines.sources.split_enumerator import SplitEnumerator
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed
from flykka.messages.graph.job_graph import JobGraph, OperatorKind
from flykka.messages.tasks.source import RequestSplits, SplitsDiscovered
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId, vertex_subtask_and_number

_NO_DISCOVERY = Ignore(reason="no discovery of this source's splits is under way")


class DiscoveryPhase(Enum):
    """The schedule of a source's split discovery."""

    NONE = auto()
    UNDER_WAY = auto()
    LATER = auto()
    WHEN_FEW_ARE_LEFT = auto()


D = DiscoveryPhase

DISCOVERY_MOVES: dict[DiscoveryPhase, tuple[DiscoveryPhase, ...]] = {
    D.NONE: (D.UNDER_WAY, D.LATER, D.WHEN_FEW_ARE_LEFT),
    D.UNDER_WAY: (D.NONE,),
    D.LATER: (D.UNDER_WAY, D.NONE),
    D.WHEN_FEW_ARE_LEFT: (D.UNDER_WAY, D.NONE),
}


@dataclass(slots=True, kw_only=True)
class _Source:
    operator_id: OperatorId
    name: str
    vertex_id: JobVertexId
    enumerator: SplitEnumerator
    discovery: DiscoveryPhase = DiscoveryPhase.NONE
    files_left: int = 0
    retained: str | None = None
    is_missing: bool = False
    is_due_again: bool = False
    """True if there may be more than the discovery under way finds."""

    def move(self, discovery: DiscoveryPhase) -> None:
        self.discovery = next_phase(DISCOVERY_MOVES, self.discovery, discovery)


class SourceCoordinator:
    """All sources of one job."""

    def __init__(self, job_graph: JobGraph) -> None:
        self._job_id = job_graph.job_id
        self._sources: Mapping[OperatorId, _Source] = {
            operator.operator_id: _Source(
                operator_id=operator.operator_id,
                name=operator.name,
                vertex_id=vertex.vertex_id,
                enumerator=SplitEnumerator(
                    job_graph.job_id, vertex.vertex_id, operator.operator_id, parallelism=vertex.parallelism
                ),
            )
            for vertex in job_graph.vertices
            for operator in vertex.operators
            if operator.kind is OperatorKind.SOURCE
        }
        self._of_vertex = {source.vertex_id: source for source in self._sources.values()}

    def handle(self, event: SourceEvent, now: int) -> list[SourceEffect]:
        """Handle one event; its effects are in the order in which they are to be performed."""
        match event:
            case SourcesReset(states=states):
                return self._on_reset(states)
            case SplitsDiscovered():
                return self._on_splits_discovered(event, now)
            case SplitDiscoveryFailed(operator_id=operator_id):
                return self._on_discovery_failed(self._sources.get(operator_id))
            case SplitDiscoveryDue(operator_id=operator_id):
                return self._on_discovery_due(self._sources.get(operator_id))
            case RequestSplits():
                return self._on_request_splits(event, now)
            case AttemptEnded(attempt=attempt):
                return self._tell(self._source_of(attempt), event, now)
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                return self._tell(self._source_of(event.attempt), event, now)
            case SubtaskReset(vertex_id=vertex_id):
                return self._tell(self._of_vertex.get(vertex_id), event, now)
            case CheckpointAborted() | CheckpointCompleted():
                return [effect for source in self._sources.values() for effect in self._tell(source, event, now)]
            case SnapshotOperatorCoordinators(checkpoint_id=checkpoint_id):
                return [self._snapshot(checkpoint_id)]
            case _:
                assert_never(event)

    def files_unassigned(self, vertex_id: JobVertexId) -> int:
        """The number of discovered files of a vertex's source that wait for a reader."""
        source = self._of_vertex.get(vertex_id)
        return 0 if source is None else source.enumerator.files_unassigned + source.files_left

    @property
    def retained(self) -> tuple[str, ...]:
        """Texts on what others keep for the sources, as of the last look at each."""
        return tuple(source.retained for source in self._sources.values() if source.retained is not None)

    def rescale(self, job_graph: JobGraph) -> None:
        """The job has other subtasks from now on, which start from a checkpoint: `SourcesReset` follows."""
        for vertex in job_graph.vertices:
            if (source := self._of_vertex.get(vertex.vertex_id)) is not None:
                source.enumerator.set_parallelism(vertex.parallelism)

    def check(self) -> None:
        """Assert the invariants."""
        for source in self._sources.values():
            source.enumerator.check()
            waits = source.discovery in (DiscoveryPhase.LATER, DiscoveryPhase.WHEN_FEW_ARE_LEFT)
            assert not (waits and source.enumerator.discovery_finished), "a finished source waits for a discovery"
            few = source.enumerator.has_few_splits
            waits_for_few = source.discovery is DiscoveryPhase.WHEN_FEW_ARE_LEFT
            assert not (waits_for_few and few), "few splits are left, and no discovery is under way"

    def _source_of(self, attempt: ExecutionAttemptId) -> _Source | None:
        vertex_id, _, _ = vertex_subtask_and_number(attempt, self._job_id)
        return self._of_vertex.get(vertex_id)

    def _on_reset(self, states: Iterable[OperatorCoordinatorState]) -> list[SourceEffect]:
        restored = {state.operator_id: state.data for state in states}
        effects: list[SourceEffect] = []
        for source in self._sources.values():
            source.enumerator.restore(restored.get(source.operator_id))
            # A discovery that is under way began before: its result is followed by another, if need be.
            if source.discovery is not DiscoveryPhase.UNDER_WAY:
                effects += self._discover_unless_finished(source)
        return effects

    def _on_request_splits(self, request: RequestSplits, now: int) -> list[SourceEffect]:
        source = self._sources.get(request.operator_id)
        if source is None or source is not self._source_of(request.attempt):
            return [Ignore(reason=f"{request.attempt} has no source {request.operator_id}")]
        return self._tell(source, request, now)

    def _on_discovery_failed(self, source: _Source | None) -> list[SourceEffect]:
        if source is None or source.discovery is not DiscoveryPhase.UNDER_WAY:
            return [_NO_DISCOVERY]
        source.move(DiscoveryPhase.NONE)
        return []

    def _on_discovery_due(self, source: _Source | None) -> list[SourceEffect]:
        if source is None or source.discovery in (DiscoveryPhase.NONE, DiscoveryPhase.WHEN_FEW_ARE_LEFT):
            return [Ignore(reason="no discovery of this source's splits is needed")]
        if source.discovery is DiscoveryPhase.UNDER_WAY:
            source.is_due_again = True
            return []
        return self._discover_unless_finished(source)

    def _on_splits_discovered(self, event: SplitsDiscovered, now: int) -> list[SourceEffect]:
        source = self._sources.get(event.operator_id)
        if source is None or source.discovery is not DiscoveryPhase.UNDER_WAY:
            return [_NO_DISCOVERY]
        if event.begun_at != source.enumerator.position or source.enumerator.discovery_finished:
            return self._discover_unless_finished(source)
        source.move(DiscoveryPhase.NONE)
        source.files_left = event.files_left
        source.retained = event.retained
        effects = [*_warn_if_missing(source, event), *self._tell(source, event, now)]
        if event.finished:
            return effects
        if event.more:
            source.move(DiscoveryPhase.WHEN_FEW_ARE_LEFT)
            return effects + self._discover_where_few_are_left(source)
        if source.is_due_again:
            return effects + self._discover_unless_finished(source)
        source.move(DiscoveryPhase.LATER)
        if event.interval_ms is None:
            return effects
        due = SplitDiscoveryDue(operator_id=event.operator_id)
        timer = StartTimer(key=f"split-discovery/{event.operator_id}", delay_ms=event.interval_ms, message=due)
        return [*effects, timer]

    def _discover_where_few_are_left(self, source: _Source) -> list[SourceEffect]:
        if source.discovery is not DiscoveryPhase.WHEN_FEW_ARE_LEFT or not source.enumerator.has_few_splits:
            return []
        return self._discover_unless_finished(source)

    def _discover_unless_finished(self, source: _Source) -> list[SourceEffect]:
        if source.enumerator.discovery_finished:
            source.move(DiscoveryPhase.NONE)
            return []
        source.move(DiscoveryPhase.UNDER_WAY)
        source.is_due_again = False
        return [DiscoverSplits(operator_id=source.operator_id, position=source.enumerator.position)]

    def _snapshot(self, checkpoint_id: int) -> SourcesSnapshotted:
        states = tuple(
            OperatorCoordinatorState(operator_id=operator_id, data=source.enumerator.snapshot(checkpoint_id))
            for operator_id, source in self._sources.items()
        )
        return SourcesSnapshotted(checkpoint_id=checkpoint_id, states=states)

    def _tell(self, source: _Source | None, event: SplitEnumeratorEvent, now: int) -> list[SourceEffect]:
        if source is None:
            return [Ignore(reason="there is no source in that place")]
        return [*source.enumerator.handle(event, now), *self._discover_where_few_are_left(source)]


def _warn_if_missing(source: _Source, event: SplitsDiscovered) -> list[SourceEffect]:
    """Warn of a place where nothing is; once, until something has been there."""
    path = event.missing_path
    was_missing, source.is_missing = source.is_missing, path is not None
    if path is None or was_missing:
        return []
    every = "" if event.interval_ms is None else f"; looking again every {event.interval_ms / 1_000:g} s"
    return [LogWarning(text=f"source '{source.name}' waits: there is no folder or file {path} yet{every}")]
