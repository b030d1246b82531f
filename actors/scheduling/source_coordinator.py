"""The sources of a job on the JobMaster's side: their split enumerators and the looks for new splits.

Mirrors Flink's SourceCoordinator and SourceCoordinatorContext. One enumerator per source operator decides which reader
gets which split; here it is decided when a source is looked at, what of it belongs to a checkpoint, and what happens
when the tasks begin anew. At most one look at a source is under way or waiting at any time, also across restarts.

Not here: looking itself, which may block, and at which attempt a subtask is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.split_enumerator import (
    AssignSplits,
    CheckpointGivenUp,
    SignalNoMoreSplits,
    SplitEnumerator,
    SplitEnumeratorEffect,
    SplitEnumeratorEvent,
    SplitsFound,
    SplitsRequested,
    SubtaskSettled,
)
from flykka.messages.checkpoint import OperatorCoordinatorState
from flykka.messages.ids import JobVertexId, OperatorId, SplitId
from flykka.messages.job_graph import JobGraph, OperatorKind
from flykka.messages.source import SourceSplit

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesReset:
    """New readers begin, from the states of a checkpoint or, without any, from the beginning."""

    states: tuple[OperatorCoordinatorState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookEnded:
    """A look at a source brought these splits; `finished` when no look can bring more."""

    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFailed:
    """A look at a source failed; the next one is taken when new readers begin."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class LookDue:
    """It is time to look at a source again."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAsked:
    """The current attempt of a subtask can take `count` more splits."""

    operator_id: OperatorId
    subtask: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettled:
    """A subtask has acknowledged or declined the checkpoint."""

    vertex_id: JobVertexId
    subtask: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAbandoned:
    """The checkpoint was aborted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWanted:
    """The checkpoint begins: what it is to hold of the sources."""

    checkpoint_id: int


SourceEvent = (
    SourcesReset | LookEnded | LookFailed | LookDue | ReaderAsked | TaskSettled | CheckpointAbandoned | SnapshotWanted
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class LookForSplits:
    """Look at the source for splits that are not in `seen`."""

    operator_id: OperatorId
    seen: frozenset[SplitId]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookLater:
    """Report `LookDue` when the interval of this source has passed."""

    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSplits:
    """Hand these splits to the reader of a subtask, in this order."""

    vertex_id: JobVertexId
    subtask: int
    operator_id: OperatorId
    splits: tuple[SourceSplit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendNoMoreSplits:
    """Tell the reader of a subtask that it has got all it will get."""

    vertex_id: JobVertexId
    subtask: int
    operator_id: OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesSnapshotted:
    """What the checkpoint holds of the sources."""

    checkpoint_id: int
    states: tuple[OperatorCoordinatorState, ...]


SourceEffect = LookForSplits | LookLater | SendSplits | SendNoMoreSplits | SourcesSnapshotted | Ignore


@dataclass(slots=True, kw_only=True)
class _Source:
    operator_id: OperatorId
    vertex_id: JobVertexId
    enumerator: SplitEnumerator
    is_looked_at: bool = False
    """A look is under way, or the next one waits for its time."""


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
            case LookEnded(operator_id=operator_id):
                return self._on_look_ended(event, now)
            case LookFailed(operator_id=operator_id):
                self._sources[operator_id].is_looked_at = False
                return []
            case LookDue(operator_id=operator_id):
                return [self._look(self._sources[operator_id])]
            case ReaderAsked(operator_id=operator_id, subtask=subtask, count=count):
                return self._tell(self._sources.get(operator_id), SplitsRequested(subtask=subtask, count=count), now)
            case TaskSettled(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id):
                settled = SubtaskSettled(subtask=subtask, checkpoint_id=checkpoint_id)
                return self._tell(self._of_vertex.get(vertex_id), settled, now)
            case CheckpointAbandoned(checkpoint_id=checkpoint_id):
                given_up = CheckpointGivenUp(checkpoint_id=checkpoint_id)
                return [effect for source in self._sources.values() for effect in self._tell(source, given_up, now)]
            case SnapshotWanted(checkpoint_id=checkpoint_id):
                return [self._snapshot(checkpoint_id)]
            case _:
                assert_never(event)

    def check(self) -> None:
        """Assert the invariants."""
        for source in self._sources.values():
            source.enumerator.check()
            assert not (source.is_looked_at and source.enumerator.discovery_finished), "a finished source is looked at"

    def _on_reset(self, states: Iterable[OperatorCoordinatorState]) -> list[SourceEffect]:
        restored = {state.operator_id: state.data for state in states}
        effects: list[SourceEffect] = []
        for source in self._sources.values():
            source.enumerator.restore(restored.get(source.operator_id))
            if not source.is_looked_at and not source.enumerator.discovery_finished:
                effects.append(self._look(source))
        return effects

    def _on_look_ended(self, event: LookEnded, now: int) -> list[SourceEffect]:
        source = self._sources[event.operator_id]
        effects = self._tell(source, SplitsFound(splits=event.splits, finished=event.finished), now)
        source.is_looked_at = not source.enumerator.discovery_finished
        return [*effects, LookLater(operator_id=event.operator_id)] if source.is_looked_at else effects

    def _look(self, source: _Source) -> LookForSplits:
        source.is_looked_at = True
        return LookForSplits(operator_id=source.operator_id, seen=source.enumerator.seen)

    def _snapshot(self, checkpoint_id: int) -> SourcesSnapshotted:
        states = tuple(
            OperatorCoordinatorState(operator_id=operator_id, data=source.enumerator.snapshot(checkpoint_id))
            for operator_id, source in self._sources.items()
        )
        return SourcesSnapshotted(checkpoint_id=checkpoint_id, states=states)

    def _tell(self, source: _Source | None, event: SplitEnumeratorEvent, now: int) -> list[SourceEffect]:
        if source is None:
            return [Ignore(reason="there is no source in that place")]
        return [_addressed(source, effect) for effect in source.enumerator.handle(event, now)]


def _addressed(source: _Source, effect: SplitEnumeratorEffect) -> SourceEffect:
    place, operator_id = source.vertex_id, source.operator_id
    match effect:
        case AssignSplits(subtask=subtask, splits=splits):
            return SendSplits(vertex_id=place, subtask=subtask, operator_id=operator_id, splits=splits)
        case SignalNoMoreSplits(subtask=subtask):
            return SendNoMoreSplits(vertex_id=place, subtask=subtask, operator_id=operator_id)
        case Ignore():
            return effect
        case _:
            assert_never(effect)
