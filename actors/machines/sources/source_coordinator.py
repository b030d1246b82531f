"""The sources of a job on the JobMaster's side: their split enumerators and the discovery of new splits.

Mirrors Flink's SourceCoordinator and SourceCoordinatorContext. One enumerator per source operator decides which reader
gets which split. This module decides when splits are discovered, which state of a source belongs to a checkpoint, and
what happens when the tasks restart. At most one discovery of a source runs at any time, even during restarts; the
result of a discovery that began before a restart is ignored, and another discovery follows. If a discovery does not
return all splits, the next discovery follows when few splits remain.

Not here: the discovery itself, which may block, and the current attempts of subtasks.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from flykka.actors.machines.effects import Ignore, LogWarning, StartTimer, Tell
from flykka.actors.machines.sources.source_events import (
    AttemptEnded,
    DiscoverSplits,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    SplitEnumeratorEffect,
    SplitEnumeratorEvent,
    SubtaskReset,
)
from flykka.actors.machines.states import next_phase
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed
from flykka.messages.graph.job_graph import JobGraph, OperatorKind
from flykka.messages.tasks.source import (
    AddSplits,
    NoMoreSplits,
    RequestSplits,
    SourceSplit,
    SplitEnumeratorState,
    SplitsDiscovered,
    files_in,
)
from flykka.messages.wire import codec
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import (
    ExecutionAttemptId,
    JobId,
    JobVertexId,
    OperatorId,
    attempt_id,
    vertex_subtask_and_number,
)

FEW_SPLITS = 128
"""The number of unassigned splits below which a source discovers the next splits, if there are more."""
NumberedSplit = tuple[SourceSplit, int]
"""A split and its assignment number, in the order of the first assignments."""

Assignments = dict[int, list[NumberedSplit]]
"""Splits by subtask, in the order in which they were assigned."""
_NO_DISCOVERY = Ignore(reason="no discovery of this source's splits is under way")


class DiscoveryPhase(Enum):
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
    """True if there may be more splits than the current discovery finds."""

    def move(self, discovery: DiscoveryPhase) -> None:
        self.discovery = next_phase(DISCOVERY_MOVES, self.discovery, discovery)


class SourceCoordinator:
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
                return self._dispatch(self._source_of(attempt), event, now)
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                return self._dispatch(self._source_of(event.attempt), event, now)
            case SubtaskReset(vertex_id=vertex_id):
                return self._dispatch(self._of_vertex.get(vertex_id), event, now)
            case CheckpointAborted() | CheckpointCompleted():
                return [effect for source in self._sources.values() for effect in self._dispatch(source, event, now)]
            case SnapshotOperatorCoordinators(checkpoint_id=checkpoint_id):
                return [self._snapshot(checkpoint_id)]
            case _:
                assert_never(event)

    def files_unassigned(self, vertex_id: JobVertexId) -> int:
        source = self._of_vertex.get(vertex_id)
        return 0 if source is None else source.enumerator.files_unassigned + source.files_left

    @property
    def retained(self) -> tuple[str, ...]:
        """Texts about data that other systems retain for the sources, as of the last discovery of each source."""
        return tuple(source.retained for source in self._sources.values() if source.retained is not None)

    def rescale(self, job_graph: JobGraph) -> None:
        """Set the subtasks of the rescaled job, which start from a checkpoint. `SourcesReset` follows."""
        for vertex in job_graph.vertices:
            if (source := self._of_vertex.get(vertex.vertex_id)) is not None:
                source.enumerator.set_parallelism(vertex.parallelism)

    def check(self) -> None:
        for source in self._sources.values():
            source.enumerator.check()
            waits = source.discovery in (DiscoveryPhase.LATER, DiscoveryPhase.WHEN_FEW_ARE_LEFT)
            assert not (waits and source.enumerator.discovery_finished), (
                "a discovery is planned although the source is finished"
            )
            few = source.enumerator.has_few_splits
            waits_for_few = source.discovery is DiscoveryPhase.WHEN_FEW_ARE_LEFT
            assert not (waits_for_few and few), "few splits are left, but no discovery is running"

    def _source_of(self, attempt: ExecutionAttemptId) -> _Source | None:
        vertex_id, _, _ = vertex_subtask_and_number(attempt, self._job_id)
        return self._of_vertex.get(vertex_id)

    def _on_reset(self, states: Iterable[OperatorCoordinatorState]) -> list[SourceEffect]:
        restored = {state.operator_id: state.data for state in states}
        effects: list[SourceEffect] = []
        for source in self._sources.values():
            source.enumerator.restore(restored.get(source.operator_id))
            # A running discovery began before the reset: another discovery follows its result, if needed.
            if source.discovery is not DiscoveryPhase.UNDER_WAY:
                effects += self._discover_unless_finished(source)
        return effects

    def _on_request_splits(self, request: RequestSplits, now: int) -> list[SourceEffect]:
        source = self._sources.get(request.operator_id)
        if source is None or source is not self._source_of(request.attempt):
            return [Ignore(reason=f"{request.attempt} has no source {request.operator_id}")]
        return self._dispatch(source, request, now)

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
        effects = [*_warn_if_missing(source, event), *self._dispatch(source, event, now)]
        if event.finished:
            return effects
        if event.more:
            source.move(DiscoveryPhase.WHEN_FEW_ARE_LEFT)
            return effects + self._discover_if_few_splits(source)
        if source.is_due_again:
            return effects + self._discover_unless_finished(source)
        source.move(DiscoveryPhase.LATER)
        if event.interval_ms is None:
            return effects
        due = SplitDiscoveryDue(operator_id=event.operator_id)
        timer = StartTimer(key=f"split-discovery/{event.operator_id}", delay_ms=event.interval_ms, message=due)
        return [*effects, timer]

    def _discover_if_few_splits(self, source: _Source) -> list[SourceEffect]:
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

    def _dispatch(self, source: _Source | None, event: SplitEnumeratorEvent, now: int) -> list[SourceEffect]:
        if source is None:
            return [Ignore(reason="the attempt has no source")]
        return [*source.enumerator.handle(event, now), *self._discover_if_few_splits(source)]


def _warn_if_missing(source: _Source, event: SplitsDiscovered) -> list[SourceEffect]:
    """Warn that the path of the source does not exist: once, and again after the path has existed."""
    path = event.missing_path
    was_missing, source.is_missing = source.is_missing, path is not None
    if path is None or was_missing:
        return []
    every = "" if event.interval_ms is None else f"; it is checked again every {event.interval_ms / 1_000:g} s"
    return [LogWarning(text=f"source '{source.name}' waits: no folder or file {path} exists yet{every}")]


@dataclass(slots=True, kw_only=True)
class _Reader:
    """A subtask: its attempt, its requested splits, and the checkpoints whose barriers it still expects."""

    attempt_number: int = 0
    is_over: bool = False
    wanted: int = 0
    told_no_more: bool = False
    closed_for: tuple[int, ...] = ()


class SplitEnumerator:
    """Assigns the splits of one source to its readers (Flink's SplitEnumerator and the gateways to its subtasks).

    Splits are never divided and are assigned in the order of their discovery, one per reader and turn, in the order of
    the requests, so that a reader with large requests does not starve the others. If no splits remain and no more can
    be discovered, a reader that requests splits is notified once.

    Between the snapshot of this state for a checkpoint and the reader's own part in the checkpoint, a reader gets no
    splits: its requests wait. So a split is either unassigned in the snapshot or in the reader's state, never both, and
    even with overlapping checkpoints no snapshot contains a split in transit. A split assigned after the snapshot
    belongs after its barrier.

    Discovered data is remembered as a position that the source's discovery understands, and not by name, so that the
    state does not grow with the data. A reader registers with its first request. When its attempt has ended it gets no
    more splits. The splits assigned since the checkpoint from which its subtask restarts are reserved for the next
    attempt of that subtask: other readers have continued, and may have moved event time past the rows of these splits.
    """

    def __init__(self, job_id: JobId, vertex_id: JobVertexId, operator_id: OperatorId, *, parallelism: int) -> None:
        """The readers are subtasks 0 to `parallelism` - 1 of the vertex."""
        self._job_id = job_id
        self._vertex_id = vertex_id
        self._operator_id = operator_id
        self._readers = [_Reader() for _ in range(parallelism)]
        # The waiting readers in the order of their requests. An OrderedDict, because an ended reader is removed from
        # the middle, and large jobs have thousands of readers.
        self._turns: OrderedDict[int, None] = OrderedDict()
        self._unassigned: deque[SourceSplit] = deque()
        self._returned: dict[int, deque[NumberedSplit]] = {}
        self._assigned = SplitAssignmentTracker()
        self._position = b""
        self._finished = False
        self._handed_out = 0

    @property
    def position(self) -> bytes:
        """The position of the next discovery. Empty means the beginning."""
        return self._position

    @property
    def has_few_splits(self) -> bool:
        return len(self._unassigned) < FEW_SPLITS

    @property
    def files_unassigned(self) -> int:
        reserved = (split for splits in self._returned.values() for split, _ in splits)
        return files_in(self._unassigned) + files_in(reserved)

    @property
    def discovery_finished(self) -> bool:
        return self._finished

    def handle(self, event: SplitEnumeratorEvent, now: int) -> list[SplitEnumeratorEffect]:
        match event:
            case SplitsDiscovered():
                return self._on_splits_discovered(event)
            case RequestSplits(attempt=attempt, count=count):
                return self._on_request_splits(*self._place(attempt), count)
            case AttemptEnded(attempt=attempt):
                return self._on_attempt_ended(*self._place(attempt))
            case SubtaskReset(subtask=subtask, checkpoint_id=checkpoint_id):
                return self._on_reset(subtask, checkpoint_id)
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                # Barriers reach a task in the order of their ids, so the task has passed all earlier barriers.
                subtask, _ = self._place(event.attempt)
                later = tuple(each for each in self._readers[subtask].closed_for if each > event.checkpoint_id)
                return self._reopen({subtask: later}, event.checkpoint_id)
            case CheckpointAborted(checkpoint_id=checkpoint_id):
                return self._reopen_all(checkpoint_id)
            case CheckpointCompleted(checkpoint_id=checkpoint_id, is_retained=is_retained):
                if is_retained:  # Attempts may restore from this checkpoint.
                    self._assigned.on_checkpoint_complete(checkpoint_id)
                return self._reopen_all(checkpoint_id)
            case _:
                assert_never(event)

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Return the state for the checkpoint. Each reader then waits until it has passed the barrier.

        A reader whose attempt has ended is closed, too: the next attempt of its subtask may take part before it
        requests splits. An attempt that does not take part waits until the checkpoint has completed or was aborted.
        """
        for reader in self._readers:
            reader.closed_for += (checkpoint_id,)
        self._turns.clear()
        self._assigned.on_checkpoint(checkpoint_id)
        state = SplitEnumeratorState(
            unassigned=(*(split for splits in self._returned.values() for split, _ in splits), *self._unassigned),
            finished=self._finished,
            handed_out=self._handed_out,
            position=self._position,
        )
        return codec.encode(state)

    def restore(self, data: bytes | None) -> None:
        """Restore the state of a checkpoint or, with `None`, the initial state. All readers start again.

        Raises:
            DecodeError: the bytes are not a state of this class.
        """
        state = _decode(data) if data is not None else SplitEnumeratorState()
        self._unassigned = deque(state.unassigned)
        self._returned = {}
        self._position = state.position
        self._finished = state.finished
        self._handed_out = state.handed_out
        self._assigned = SplitAssignmentTracker()
        self._readers = [
            _Reader(attempt_number=reader.attempt_number, is_over=reader.is_over) for reader in self._readers
        ]
        self._turns.clear()

    def set_parallelism(self, parallelism: int) -> None:
        """Set the subtasks of the rescaled vertex, which have no requests yet. `restore` must follow."""
        self._readers = [_Reader() for _ in range(parallelism)]
        self._turns.clear()

    def check(self) -> None:
        returned = [split for splits in self._returned.values() for split, _ in splits]
        waiting = [split.split_id for split in (*returned, *self._unassigned)]
        assert len(waiting) == len(set(waiting)), "a split would be assigned twice"
        ready = [index for index, reader in enumerate(self._readers) if reader.wanted and not reader.closed_for]
        assert sorted(self._turns) == ready, "the queue of readers does not consist of the ready ones"
        assert not any(reader.wanted for reader in self._readers if reader.is_over), (
            "a reader that has ended requests a split"
        )
        assert not (self._turns and self._unassigned), "a reader is waiting although there are unassigned splits"
        assert all(self._returned.values()), "an empty reservation is stored"
        assert not self._turns.keys() & self._returned.keys(), "a reader is waiting although splits are reserved for it"
        self._assigned.check()

    def _place(self, attempt: ExecutionAttemptId) -> tuple[int, int]:
        _, subtask, number = vertex_subtask_and_number(attempt, self._job_id)
        return subtask, number

    def _on_splits_discovered(self, event: SplitsDiscovered) -> list[SplitEnumeratorEffect]:
        if event.begun_at != self._position:
            return [Ignore(reason="the discovery began at a position that is no longer the source's")]
        self._unassigned.extend(event.splits)
        self._position = event.position
        self._finished = event.finished
        return self._serve()

    def _on_request_splits(self, subtask: int, number: int, count: int) -> list[SplitEnumeratorEffect]:
        reader = self._readers[subtask]
        if number < reader.attempt_number or (number == reader.attempt_number and reader.is_over):
            return [Ignore(reason=f"attempt {number} of subtask {subtask} has ended")]
        if number > reader.attempt_number:
            self._turns.pop(subtask, None)
            reader = _Reader(attempt_number=number, closed_for=reader.closed_for)
            self._readers[subtask] = reader
        if reader.told_no_more:
            return [Ignore(reason=f"subtask {subtask} knows that there are no more splits")]
        if count > 0 and not reader.wanted and not reader.closed_for:
            self._turns[subtask] = None
        reader.wanted += max(count, 0)
        return self._serve()

    def _on_attempt_ended(self, subtask: int, number: int) -> list[SplitEnumeratorEffect]:
        reader = self._readers[subtask]
        if number < reader.attempt_number:
            return [Ignore(reason=f"attempt {number} of subtask {subtask} had ended")]
        self._turns.pop(subtask, None)
        self._readers[subtask] = _Reader(attempt_number=number, is_over=True, closed_for=reader.closed_for)
        return []

    def _on_reset(self, subtask: int, checkpoint_id: int | None) -> list[SplitEnumeratorEffect]:
        uncheckpointed = self._assigned.take_back(subtask, checkpoint_id)
        splits = deque((*uncheckpointed, *self._returned.get(subtask, ())))
        if splits:
            self._returned[subtask] = splits
        return self._serve()

    def _reopen(self, closed_for: dict[int, tuple[int, ...]], checkpoint_id: int) -> list[SplitEnumeratorEffect]:
        changed = {
            subtask: checkpoints
            for subtask, checkpoints in closed_for.items()
            if checkpoints != self._readers[subtask].closed_for
        }
        for subtask, checkpoints in changed.items():
            reader = self._readers[subtask]
            reader.closed_for = checkpoints
            if not checkpoints and reader.wanted:
                self._turns[subtask] = None
        return self._serve() if changed else [Ignore(reason=f"no reader waits for checkpoint {checkpoint_id}")]

    def _reopen_all(self, checkpoint_id: int) -> list[SplitEnumeratorEffect]:
        waiting = {
            subtask: tuple(each for each in reader.closed_for if each != checkpoint_id)
            for subtask, reader in enumerate(self._readers)
            if checkpoint_id in reader.closed_for
        }
        return self._reopen(waiting, checkpoint_id) if waiting else []

    def _serve(self) -> list[SplitEnumeratorEffect]:
        assignments: dict[int, list[NumberedSplit]] = {}
        while (subtask := self._next_turn()) is not None:
            split, number = self._take_for(subtask)
            self._assigned.record(subtask, split, number)
            assignments.setdefault(subtask, []).append((split, number))
            reader = self._readers[subtask]
            reader.wanted -= 1
            if reader.wanted:
                self._turns[subtask] = None
        messages = [self._add_splits(subtask, splits) for subtask, splits in assignments.items()]
        return [*messages, *self._signal_no_more_splits()]

    def _add_splits(self, subtask: int, splits: list[NumberedSplit]) -> Tell[ExecutionAttemptId]:
        attempt = self._attempt(subtask)
        message = AddSplits(
            attempt=attempt,
            operator_id=self._operator_id,
            splits=tuple(split for split, _ in splits),
            numbers=tuple(number for _, number in splits),
        )
        return Tell(to=attempt, message=message)

    def _attempt(self, subtask: int) -> ExecutionAttemptId:
        return attempt_id(self._job_id, self._vertex_id, subtask, self._readers[subtask].attempt_number)

    def _next_turn(self) -> int | None:
        if self._turns and self._unassigned:
            return self._turns.popitem(last=False)[0]
        for subtask in self._returned:
            if subtask in self._turns:
                del self._turns[subtask]
                return subtask
        return None

    def _take_for(self, subtask: int) -> NumberedSplit:
        reserved = self._returned.get(subtask)
        if reserved is None:
            self._handed_out += 1
            return self._unassigned.popleft(), self._handed_out - 1
        numbered = reserved.popleft()
        if not reserved:
            del self._returned[subtask]
        return numbered

    def _signal_no_more_splits(self) -> list[Tell[ExecutionAttemptId]]:
        if not self._finished or self._unassigned:
            return []
        subtasks = tuple(self._turns)
        self._turns.clear()
        for subtask in subtasks:
            self._readers[subtask].wanted = 0
            self._readers[subtask].told_no_more = True
        messages = [NoMoreSplits(attempt=self._attempt(each), operator_id=self._operator_id) for each in subtasks]
        return [Tell(to=message.attempt, message=message) for message in messages]


def _decode(data: bytes) -> SplitEnumeratorState:
    state = codec.decode(data)
    if not isinstance(state, SplitEnumeratorState):
        raise DecodeError(f"a split enumerator cannot be restored from a {type(state).__name__}")
    if state.assigned and not state.position:
        # A restart of such a source would read everything twice.
        raise DecodeError(
            "the split enumerator's state has an old format, a list of splits: start the job without this state"
        )
    return state


class SplitAssignmentTracker:
    """Tracks the splits assigned since each checkpoint, by subtask (Flink's SplitAssignmentTracker).

    A split that a reader received before its part in a completed checkpoint is in that checkpoint as the reader's
    state. Splits that it received later are known only here, and are taken back when the subtask restarts from the
    checkpoint.
    """

    def __init__(self) -> None:
        self._uncheckpointed: Assignments = {}
        self._by_checkpoint: dict[int, Assignments] = {}

    def record(self, subtask: int, split: SourceSplit, number: int) -> None:
        self._uncheckpointed.setdefault(subtask, []).append((split, number))

    def on_checkpoint(self, checkpoint_id: int) -> None:
        """Record a checkpoint. The splits assigned before this call belong to it if it completes."""
        self._by_checkpoint[checkpoint_id], self._uncheckpointed = self._uncheckpointed, {}

    def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        for each in [each for each in self._by_checkpoint if each <= checkpoint_id]:
            del self._by_checkpoint[each]

    def take_back(self, subtask: int, restored_checkpoint_id: int | None) -> tuple[NumberedSplit, ...]:
        """Remove and return the splits assigned after the restored checkpoint (`None`: all splits), in order."""
        since = [
            assignments
            for checkpoint_id, assignments in sorted(self._by_checkpoint.items())
            if restored_checkpoint_id is None or checkpoint_id > restored_checkpoint_id
        ]
        return tuple(split for each in (*since, self._uncheckpointed) for split in each.pop(subtask, ()))

    def check(self) -> None:
        ids = [
            split.split_id
            for assignments in (*self._by_checkpoint.values(), self._uncheckpointed)
            for splits in assignments.values()
            for split, _ in splits
        ]
        assert len(ids) == len(set(ids)), "a split was assigned twice"
