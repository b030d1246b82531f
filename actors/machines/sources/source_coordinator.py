"""The sources of a job on the JobMaster's side: their split enumerators and the looks for new splits.

Mirrors Flink's SourceCoordinator and SourceCoordinatorContext. One enumerator per source operator decides which reader
gets which split; here it is decided when a source is looked at, what of it belongs to a checkpoint, and what happens
when the tasks restart. At most one look at a source is under way at any time, also across restarts; one that began
before a restart brings nothing, and is followed by another. Where more is there than one look brings, the next one is
taken when few splits are left.

Not here: looking itself, which may block, and at which attempt a subtask is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.sources.source_events import (
    AttemptEnded,
    CheckpointAbandoned,
    CheckpointCommitted,
    LookDue,
    LookEnded,
    LookFailed,
    LookForSplits,
    LookLater,
    ReaderAsked,
    SendNoMoreSplits,
    SendSplits,
    SnapshotWanted,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    TaskReset,
    TaskSettled,
    TellMissing,
)
from flykka.actors.machines.sources.split_enumerator import SplitEnumerator
from flykka.actors.machines.sources.split_enumerator_events import (
    AssignSplits,
    CheckpointConfirmed,
    CheckpointGivenUp,
    ReaderEnded,
    SignalNoMoreSplits,
    SplitEnumeratorEffect,
    SplitEnumeratorEvent,
    SplitsFound,
    SplitsRequested,
    SubtaskReset,
    SubtaskSettled,
)
from flykka.messages.checkpointing.checkpoint import OperatorCoordinatorState
from flykka.messages.graph.job_graph import JobGraph, OperatorKind
from flykka.messages.wire.ids import JobVertexId, OperatorId

_NO_LOOK = Ignore(reason="no look at this source is under way")


class _Look(Enum):
    """The schedule of a source's split discovery."""

    NOT_AT_ALL = auto()
    UNDER_WAY = auto()
    LATER = auto()
    WHEN_FEW_ARE_LEFT = auto()


@dataclass(slots=True, kw_only=True)
class _Source:
    operator_id: OperatorId
    vertex_id: JobVertexId
    enumerator: SplitEnumerator
    look: _Look = _Look.NOT_AT_ALL
    files_left: int = 0
    is_missing: bool = False


class SourceCoordinator:
    """All sources of one job."""

    def __init__(self, job_graph: JobGraph) -> None:
        self._sources: Mapping[OperatorId, _Source] = {
            operator.operator_id: _Source(
                operator_id=operator.operator_id,
                vertex_id=vertex.vertex_id,
                enumerator=SplitEnumerator(parallelism=vertex.parallelism),
            )
            for vertex in job_graph.vertices
            for operator in vertex.operators
            if operator.kind is OperatorKind.SOURCE
        }
        self._of_vertex = {source.vertex_id: source for source in self._sources.values()}

    def handle(self, event: SourceEvent, now: int) -> list[SourceEffect]:
        """Take one event; what is to be done about it, in order."""
        match event:
            case SourcesReset(states=states):
                return self._on_reset(states)
            case LookEnded():
                return self._on_look_ended(event, now)
            case LookFailed(operator_id=operator_id):
                return self._on_look_failed(self._sources.get(operator_id))
            case LookDue(operator_id=operator_id):
                return self._on_look_due(self._sources.get(operator_id))
            case ReaderAsked():
                return self._on_asked(event, now)
            case AttemptEnded(vertex_id=vertex_id, subtask=subtask, attempt_number=number):
                ended = ReaderEnded(subtask=subtask, attempt_number=number)
                return self._tell(self._of_vertex.get(vertex_id), ended, now)
            case TaskReset(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id):
                reset = SubtaskReset(subtask=subtask, checkpoint_id=checkpoint_id)
                return self._tell(self._of_vertex.get(vertex_id), reset, now)
            case TaskSettled(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id):
                settled = SubtaskSettled(subtask=subtask, checkpoint_id=checkpoint_id)
                return self._tell(self._of_vertex.get(vertex_id), settled, now)
            case CheckpointAbandoned(checkpoint_id=checkpoint_id):
                return self._tell_all(CheckpointGivenUp(checkpoint_id=checkpoint_id), now)
            case CheckpointCommitted(checkpoint_id=checkpoint_id):
                return self._tell_all(CheckpointConfirmed(checkpoint_id=checkpoint_id), now)
            case SnapshotWanted(checkpoint_id=checkpoint_id):
                return [self._snapshot(checkpoint_id)]
            case _:
                assert_never(event)

    def files_unassigned(self, vertex_id: JobVertexId) -> int:
        """The number of discovered files of a vertex's source that wait for a reader."""
        source = self._of_vertex.get(vertex_id)
        return 0 if source is None else source.enumerator.files_unassigned + source.files_left

    def check(self) -> None:
        """Assert the invariants."""
        for source in self._sources.values():
            source.enumerator.check()
            waits = source.look in (_Look.LATER, _Look.WHEN_FEW_ARE_LEFT)
            assert not (waits and source.enumerator.discovery_finished), "a finished source is to be looked at"
            few = source.enumerator.has_few_splits
            assert not (source.look is _Look.WHEN_FEW_ARE_LEFT and few), "few splits are left, and nobody looks"

    def _on_reset(self, states: Iterable[OperatorCoordinatorState]) -> list[SourceEffect]:
        restored = {state.operator_id: state.data for state in states}
        effects: list[SourceEffect] = []
        for source in self._sources.values():
            source.enumerator.restore(restored.get(source.operator_id))
            # A look that is under way began before: what comes of it is followed by another, if need be.
            if source.look is not _Look.UNDER_WAY:
                effects += self._look_unless_finished(source)
        return effects

    def _on_asked(self, asked: ReaderAsked, now: int) -> list[SourceEffect]:
        source = self._sources.get(asked.operator_id)
        if source is None or source.vertex_id != asked.vertex_id:
            return [Ignore(reason=f"vertex {asked.vertex_id} has no source {asked.operator_id}")]
        request = SplitsRequested(subtask=asked.subtask, attempt_number=asked.attempt_number, count=asked.count)
        return self._tell(source, request, now)

    def _on_look_failed(self, source: _Source | None) -> list[SourceEffect]:
        if source is None or source.look is not _Look.UNDER_WAY:
            return [_NO_LOOK]
        source.look = _Look.NOT_AT_ALL
        return []

    def _on_look_due(self, source: _Source | None) -> list[SourceEffect]:
        if source is None or source.look is not _Look.LATER:
            return [Ignore(reason="the source is looked at already, or need not be")]
        return self._look_unless_finished(source)

    def _on_look_ended(self, event: LookEnded, now: int) -> list[SourceEffect]:
        source = self._sources.get(event.operator_id)
        if source is None or source.look is not _Look.UNDER_WAY:
            return [_NO_LOOK]
        if event.begun_at != source.enumerator.position or source.enumerator.discovery_finished:
            return self._look_unless_finished(source)
        source.look = _Look.NOT_AT_ALL
        source.files_left = event.files_left
        found = SplitsFound(
            splits=event.splits, finished=event.finished, begun_at=event.begun_at, position=event.position
        )
        effects = [*_missing(source, event.missing_path), *self._tell(source, found, now)]
        if event.finished:
            return effects
        if event.more:
            source.look = _Look.WHEN_FEW_ARE_LEFT
            return effects + self._look_where_few_are_left(source)
        source.look = _Look.LATER
        return [*effects, LookLater(operator_id=event.operator_id)]

    def _look_where_few_are_left(self, source: _Source) -> list[SourceEffect]:
        if source.look is not _Look.WHEN_FEW_ARE_LEFT or not source.enumerator.has_few_splits:
            return []
        return self._look_unless_finished(source)

    def _look_unless_finished(self, source: _Source) -> list[SourceEffect]:
        if source.enumerator.discovery_finished:
            source.look = _Look.NOT_AT_ALL
            return []
        source.look = _Look.UNDER_WAY
        return [LookForSplits(operator_id=source.operator_id, position=source.enumerator.position)]

    def _snapshot(self, checkpoint_id: int) -> SourcesSnapshotted:
        states = tuple(
            OperatorCoordinatorState(operator_id=operator_id, data=source.enumerator.snapshot(checkpoint_id))
            for operator_id, source in self._sources.items()
        )
        return SourcesSnapshotted(checkpoint_id=checkpoint_id, states=states)

    def _tell_all(self, event: SplitEnumeratorEvent, now: int) -> list[SourceEffect]:
        return [effect for source in self._sources.values() for effect in self._tell(source, event, now)]

    def _tell(self, source: _Source | None, event: SplitEnumeratorEvent, now: int) -> list[SourceEffect]:
        if source is None:
            return [Ignore(reason="there is no source in that place")]
        effects = [_addressed(source, effect) for effect in source.enumerator.handle(event, now)]
        return effects + self._look_where_few_are_left(source)


def _missing(source: _Source, path: str | None) -> list[SourceEffect]:
    """Tell of a place where nothing is; once, until something has been there."""
    was_missing, source.is_missing = source.is_missing, path is not None
    if path is None or was_missing:
        return []
    return [TellMissing(operator_id=source.operator_id, path=path)]


def _addressed(source: _Source, effect: SplitEnumeratorEffect) -> SourceEffect:
    place, operator_id = source.vertex_id, source.operator_id
    match effect:
        case AssignSplits(subtask=subtask, splits=splits, numbers=numbers):
            return SendSplits(vertex_id=place, subtask=subtask, operator_id=operator_id, splits=splits, numbers=numbers)
        case SignalNoMoreSplits(subtask=subtask):
            return SendNoMoreSplits(vertex_id=place, subtask=subtask, operator_id=operator_id)
        case Ignore():
            return effect
        case _:
            assert_never(effect)
