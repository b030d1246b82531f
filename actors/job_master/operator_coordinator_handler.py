"""The part of a JobMaster that handles operator coordinators (Flink's OperatorCoordinatorHandler).

It contains the coordinators of sources: splits are discovered through the data plane, the SourceCoordinator assigns
them to readers, WatermarkAlignments limits how far readers may advance, and messages reach the readers through the
TaskManagers of their attempts. Coordinators of user functions are in `OperatorCoordinators`. For a checkpoint these are
called first, because they reply later; the sources take part in the turn in which all replies have arrived.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane, SplitDiscovery
from flykka.actors.errors import RestoreError
from flykka.actors.job_master.operator_coordinators import CoordinatorMessage, OperatorCoordinators
from flykka.actors.machines.effects import Ignore, LogWarning, StartTimer, Tell
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.sources import source_events
from flykka.actors.machines.sources.source_coordinator import SourceCoordinator
from flykka.actors.machines.sources.watermark_alignments import AlignmentEvent, WatermarkAlignments
from flykka.actors.timer_effects import set_timer
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed, WatermarkAlignmentDue
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.monitoring.explanation import JobExplained
from flykka.messages.tasks.source import ReportedWatermark, RequestSplits, SplitsDiscovered
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    ExecutionAttemptId,
    JobVertexId,
    LeaderSessionId,
    OperatorId,
    vertex_subtask_and_number,
)
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized
from flykka.runtime.leader_session import Gateway

_log = logging.getLogger(__name__)

SourceMessage = (
    RequestSplits
    | SplitsDiscovered
    | SplitDiscoveryDue
    | SplitDiscoveryFailed
    | SnapshotOperatorCoordinators
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointAborted
    | CheckpointCompleted
)

_READING = (ExecutionState.DEPLOYING, ExecutionState.RUNNING)
_ENDING = (ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED, ExecutionState.FINISHED)
_PAUSE_MS = 10


class OperatorCoordinatorHandler:
    """Used in the turns of one JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        graph: ExecutionGraph,
        session: LeaderSessionId,
        data_plane: DataPlane,
        checkpoint_coordinator: Ref,
        *,
        tell_listeners: Callable[[Message], object],
        fail_job: Callable[[SerializedThrowable], object],
    ) -> None:
        self._context = context
        self._graph = graph
        self._session = session
        self._checkpoint_coordinator = checkpoint_coordinator
        self._coordinator = SourceCoordinator(graph.job_graph)
        self._alignments = WatermarkAlignments(graph.job_graph)
        self._version: int | None = None
        sources = [
            (vertex.vertex_id, operator)
            for vertex in graph.job_graph.vertices
            for operator in vertex.operators
            if operator.kind is OperatorKind.SOURCE
        ]
        self._vertices = {vertex_id for vertex_id, _ in sources}
        self._discoveries = {
            operator.operator_id: _Discovery(
                partial(data_plane.split_discovery, graph.job_graph.job_id, operator),
                DiscoveryWatch(
                    partial(context.ref.tell, SplitDiscoveryDue(operator_id=operator.operator_id)), context.ref.is_alive
                ),
            )
            for _, operator in sources
        }
        self._discovering: dict[OperatorId, bytes] = {}
        """The position from which each source's splits are being discovered."""
        self._of_functions = OperatorCoordinators(
            context,
            graph,
            data_plane,
            tell_attempt=self._tell_attempt,
            tell_listeners=tell_listeners,
            fail_job=fail_job,
            on_snapshotted=self._decide,
        )

    def reset(self, version: int, checkpoint_id: int | None, states: Iterable[OperatorCoordinatorState]) -> None:
        """Restart from the states of a checkpoint, or from the beginning. Does nothing if this version was already
        reset.

        Raises:
            RestoreError: this flykka version cannot read the state of a source.
        """
        if version == self._version:
            # The readers of this version may have been assigned splits already.
            return
        self._version = version
        try:
            reset = source_events.SourcesReset(states=tuple(states))
            self._decide(reset)
            self._align(reset)
            self._of_functions.reset(checkpoint_id, reset.states)
        except DecodeError as error:
            raise RestoreError(f"the checkpoint's state of a source cannot be read: {error}") from error

    def rescale(self) -> None:
        """Adopt the job graph's new parallelism. No reader of the former parallelism is running."""
        self._coordinator.rescale(self._graph.job_graph)
        self._alignments = WatermarkAlignments(self._graph.job_graph)

    def reset_tasks(
        self, tasks: Collection[Subtask], checkpoint_id: int | None, states: Iterable[OperatorCoordinatorState]
    ) -> None:
        """Take back the splits that these restarting subtasks received after the checkpoint or, without one, ever."""
        self._of_functions.reset_tasks(tasks, checkpoint_id, states)
        for vertex_id, subtask in tasks:
            # Only subtasks with a source need an event, and most subtasks have no source.
            if vertex_id in self._vertices:
                reset = source_events.SubtaskReset(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id)
                self._decide(reset)
                self._align(reset)

    def on_function(self, message: CoordinatorMessage) -> None:
        self._of_functions.on_message(message)

    def on_answer(
        self, message: AcknowledgeCheckpoint | DeclineCheckpoint
    ) -> AcknowledgeCheckpoint | DeclineCheckpoint:
        """Handle a subtask's response to a barrier. Returns it, with in-flight events, for the coordinator."""
        self.on_message(message)
        return self._of_functions.on_answer(message)

    def on_message(self, message: SourceMessage) -> None:
        match message:
            case SnapshotOperatorCoordinators() if not self._of_functions.is_empty:
                self._of_functions.begin_snapshot(message)
                return
            case CheckpointAborted() | CheckpointCompleted():
                self._of_functions.on_checkpoint_over(message)
            case RequestSplits() | AcknowledgeCheckpoint() | DeclineCheckpoint():
                execution = self._graph.execution(message.attempt)
                # Every subtask of the job acknowledges, but only subtasks with a source need an event.
                if execution is None or execution.vertex_id not in self._vertices:
                    return
            case SplitsDiscovered(operator_id=operator_id, begun_at=begun_at):
                if self._discovering.get(operator_id) == begun_at:
                    del self._discovering[operator_id]
            case SplitDiscoveryFailed(operator_id=operator_id):
                self._discovering.pop(operator_id, None)
        self._decide(message)

    def on_alignment(self, message: ReportedWatermark | WatermarkAlignmentDue) -> None:
        if isinstance(message, WatermarkAlignmentDue) or self._graph.execution(message.attempt) is not None:
            self._align(message)

    def explained(self, job: JobExplained) -> JobExplained:
        return replace(job, retained=self._coordinator.retained)

    def files_unassigned(self, vertex_id: JobVertexId) -> int:
        return self._coordinator.files_unassigned(vertex_id)

    def attempt_moved(
        self, attempt: ExecutionAttemptId, state: ExecutionState, failure: SerializedThrowable | None
    ) -> None:
        """Handle a new state of an attempt. A reader whose attempt is ending receives nothing more."""
        self._of_functions.attempt_moved(attempt, state, failure)
        vertex_id, _, _ = vertex_subtask_and_number(attempt, self._graph.job_graph.job_id)
        if state in _ENDING and vertex_id in self._vertices:
            ended = source_events.AttemptEnded(attempt=attempt)
            self._decide(ended)
            self._align(ended)

    def _decide(self, event: source_events.SourceEvent) -> None:
        for effect in self._coordinator.handle(event, self._context.now()):
            self._perform(effect)

    def _align(self, event: AlignmentEvent) -> None:
        for effect in self._alignments.handle(event):
            self._perform(effect)

    def _perform(self, effect: source_events.SourceEffect) -> None:
        match effect:
            case Tell(to=attempt, message=message):
                # The splits of an ending reader go to its next attempt.
                self._tell_attempt(attempt, message, _READING)
            case source_events.SourcesSnapshotted(checkpoint_id=checkpoint_id, states=states):
                snapshotted = OperatorCoordinatorsSnapshotted(
                    job_id=self._graph.job_graph.job_id,
                    checkpoint_id=checkpoint_id,
                    states=(*states, *self._of_functions.take_states(checkpoint_id)),
                )
                self._checkpoint_coordinator.tell(snapshotted)
            case source_events.DiscoverSplits():
                self._discover(effect)
            case StartTimer():
                set_timer(self._context, effect)
            case LogWarning(text=text):
                _log.warning("%s", text)
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _tell_attempt(
        self,
        attempt: ExecutionAttemptId,
        message: Message,
        states: Collection[ExecutionState] = (ExecutionState.RUNNING,),
    ) -> None:
        execution = self._graph.execution(attempt)
        if execution is not None and execution.state in states and execution.slot is not None:
            Gateway(execution.slot.task_manager, self._session).tell(message)

    def unanswered(self) -> dict[OperatorId, Callable[[], SplitsDiscovered]]:
        """Return pending split discoveries by source. A fork of a recorded run calls them itself, because it has no
        threads.
        """
        return {
            operator_id: partial(self._discoveries[operator_id].discover, position)
            for operator_id, position in self._discovering.items()
        }

    def _discover(self, effect: source_events.DiscoverSplits) -> None:
        operator_id = effect.operator_id
        self._discovering[operator_id] = effect.position
        self._context.pipe_to_self(
            partial(self._discoveries[operator_id].discover, effect.position),
            lambda splits: splits,
            lambda error: SplitDiscoveryFailed(operator_id=operator_id, cause=serialized(error)),
        )


@trace_tag("state.split_discovery")
class _Discovery:
    """Discovers the splits of one source, on the I/O pool and never in an actor's turn. Calls never overlap."""

    outside_state = True

    def __init__(self, begin: Callable[[], SplitDiscovery], watch: DiscoveryWatch) -> None:
        self._begin = begin
        self._watch = watch

    @cached_property
    def _discovery(self) -> SplitDiscovery:
        return self._begin()

    def discover(self, position: bytes) -> SplitsDiscovered:
        self._watch.end()
        discovery = self._discovery
        splits = discovery.discover(position)
        if discovery.changed is not None and discovery.interval_ms is not None and not (splits.more or splits.finished):
            self._watch.begin(discovery.changed, discovery.interval_ms)
        return replace(splits, interval_ms=discovery.interval_ms)


class DiscoveryWatch:
    """Wakes a source as soon as new splits may exist, so that it need not wait for the next periodic discovery.

    Storage that can cheaply check for changes is polled many times a second. The polling thread ends with the next
    discovery, at the end of the interval, or with the actor. The periodic discovery finds changes that polling misses.

    `wake` is called on another thread, at most once per `begin`.
    """

    def __init__(self, wake: Callable[[], object], is_needed: Callable[[], bool]) -> None:
        self._wake = wake
        self._is_needed = is_needed
        self._watching: threading.Event | None = None

    def begin(self, changed: Callable[[], bool], within_ms: int) -> None:
        ended = self._watching = threading.Event()
        polls = within_ms // _PAUSE_MS - 1
        threading.Thread(target=self._watch, args=(changed, ended, polls), name="flykka-discovery", daemon=True).start()

    def end(self) -> None:
        if self._watching is not None:
            self._watching.set()

    def _watch(self, changed: Callable[[], bool], ended: threading.Event, polls: int) -> None:
        for _ in range(polls):
            if ended.wait(_PAUSE_MS / 1000) or not self._is_needed():
                return
            try:
                is_new = changed()
            except Exception as failure:  # noqa: BLE001 - whatever a connector raises: the next discovery meets it too
                _log.warning("a source is not watched until its next discovery: %s", failure, exc_info=failure)
                return
            if is_new:
                self._wake()
                return
