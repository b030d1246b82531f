"""The part of a JobMaster that handles operator coordinators and global aggregates of user functions.

The user's code runs on threads outside of the JobMaster's turns. Results arrive as messages, so a replay does not run
the code.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, assert_never

from flykka.actors.data_plane import DataPlane, GlobalAggregateFunctions, OperatorCoordinatorCalls
from flykka.actors.machines.coordinators.operator_coordinator_holder import (
    AggregateEffect,
    AttemptReady,
    AttemptTerminated,
    CallCoordinator,
    CoordinatorEffect,
    CoordinatorEvent,
    CoordinatorReset,
    CoordinatorSnapshotted,
    GlobalAggregates,
    OperatorCoordinatorHolder,
    UpdateAggregates,
)
from flykka.actors.machines.effects import FailJob, Ignore, Role, Tell
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.sources.source_events import SubtaskReset
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.graph.job_graph import Operator
from flykka.messages.tasks.operator_event import (
    AggregateUpdate,
    CoordinatorAnswer,
    CoordinatorCall,
    GlobalAggregatesFailed,
    GlobalAggregatesUpdated,
    OperatorCoordinatorAnswered,
    OperatorCoordinatorFailed,
    OperatorCoordinatorWoken,
    SendOperatorEvents,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId, vertex_subtask_and_number
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.dispatch.dispatcher import Pipe
from flykka.runtime.errors import serialized

CoordinatorMessage = (
    SendOperatorEvents
    | OperatorCoordinatorAnswered
    | OperatorCoordinatorFailed
    | OperatorCoordinatorWoken
    | GlobalAggregatesUpdated
    | GlobalAggregatesFailed
)

_OVER = (ExecutionState.CANCELED, ExecutionState.FAILED, ExecutionState.FINISHED)
_IDLE_SECONDS = 10.0


class OperatorCoordinators:
    """The coordinators and aggregates of one job. Used in the turns of its JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        graph: ExecutionGraph,
        data_plane: DataPlane,
        *,
        tell_attempt: Callable[[ExecutionAttemptId, Message], object],
        tell_listeners: Callable[[Message], object],
        fail_job: Callable[[SerializedThrowable], object],
        on_snapshotted: Callable[[SnapshotOperatorCoordinators], object],
    ) -> None:
        """`on_snapshotted` is called in the turn in which the last coordinator state of a checkpoint arrives."""
        self._context = context
        self._graph = graph
        self._tell_attempt = tell_attempt
        self._tell_listeners = tell_listeners
        self._fail_job = fail_job
        self._report_snapshotted = on_snapshotted
        self._job_id = job_id = graph.job_graph.job_id
        self._vertices: dict[OperatorId, JobVertexId] = {}
        self._holders: dict[JobVertexId, OperatorCoordinatorHolder] = {}
        self._coordinators: dict[OperatorId, _Coordinator] = {}
        for vertex in graph.job_graph.vertices:
            # A function with a coordinator is at the head of its chain.
            operator = vertex.operators[0]
            if operator.has_coordinator:
                self._vertices[operator.operator_id] = vertex.vertex_id
                self._holders[vertex.vertex_id] = OperatorCoordinatorHolder(
                    job_id, vertex.vertex_id, operator.operator_id, parallelism=vertex.parallelism
                )
                woken = partial(context.ref.tell, OperatorCoordinatorWoken(operator_id=operator.operator_id))
                self._coordinators[operator.operator_id] = _Coordinator(
                    operator, partial(data_plane.operator_coordinator, job_id, operator, vertex.parallelism, woken)
                )
        self._aggregates = GlobalAggregates()
        self._functions = _Aggregates(partial(data_plane.global_aggregates, job_id), job_id)
        self._states: dict[int, dict[OperatorId, OperatorCoordinatorState]] = {}
        """The states of incomplete snapshots, by checkpoint."""

    @property
    def is_empty(self) -> bool:
        return not self._holders

    def on_message(self, message: CoordinatorMessage) -> None:
        match message:
            case SendOperatorEvents():
                execution = self._graph.execution(message.attempt)
                if execution is None:
                    return
                self._update(self._aggregates.on_updates(message))
                holder = self._holders.get(execution.vertex_id)
                if holder is not None and message.sent.events:
                    self._perform(holder.handle(message))
            case OperatorCoordinatorAnswered() | OperatorCoordinatorFailed() | OperatorCoordinatorWoken():
                vertex_id = self._vertices.get(message.operator_id)
                if vertex_id is not None:
                    self._perform(self._holders[vertex_id].handle(message))
            case GlobalAggregatesUpdated():
                self._update(self._aggregates.on_updated(message))
            case GlobalAggregatesFailed(cause=cause):
                self._update(self._aggregates.on_failed())
                self._fail_job(cause)
            case _:
                assert_never(message)

    def reset(self, checkpoint_id: int | None, states: Iterable[OperatorCoordinatorState]) -> None:
        by_operator = {state.operator_id: state for state in states}
        self._states.clear()
        for operator_id, vertex_id in self._vertices.items():
            reset = CoordinatorReset(checkpoint_id=checkpoint_id, state=by_operator.get(operator_id))
            self._perform(self._holders[vertex_id].handle(reset))

    def reset_tasks(
        self, tasks: Iterable[Subtask], checkpoint_id: int | None, states: Iterable[OperatorCoordinatorState]
    ) -> None:
        """Restart some tasks from a checkpoint, or from the beginning.

        If all subtasks of an operator restart, its coordinator is reset, because no subtask continues. Flink instead
        calls the coordinator for each subtask.
        """
        if self.is_empty:
            return
        by_operator = {state.operator_id: state for state in states}
        by_vertex: dict[JobVertexId, list[int]] = {}
        for vertex_id, subtask in tasks:
            by_vertex.setdefault(vertex_id, []).append(subtask)
        for operator_id, vertex_id in self._vertices.items():
            holder, subtasks = self._holders[vertex_id], by_vertex.get(vertex_id, [])
            if len(subtasks) == holder.parallelism:
                state = by_operator.get(operator_id)
                self._perform(holder.handle(CoordinatorReset(checkpoint_id=checkpoint_id, state=state)))
                continue
            for subtask in subtasks:
                reset = SubtaskReset(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id)
                self._perform(holder.handle(reset))

    def attempt_moved(
        self, attempt: ExecutionAttemptId, state: ExecutionState, failure: SerializedThrowable | None
    ) -> None:
        if state in _OVER:
            self._aggregates.attempt_ended(attempt)
        holder = self._holder_of(attempt)
        if holder is None:
            return
        if state is ExecutionState.RUNNING:
            self._perform(holder.handle(AttemptReady(attempt=attempt)))
        elif state in _OVER:
            is_failed = state is not ExecutionState.FINISHED
            self._perform(holder.handle(AttemptTerminated(attempt=attempt, is_failed=is_failed, reason=failure)))

    def begin_snapshot(self, message: SnapshotOperatorCoordinators) -> None:
        self._states[message.checkpoint_id] = {}
        self._tell_all(message)

    def take_states(self, checkpoint_id: int) -> tuple[OperatorCoordinatorState, ...]:
        return tuple(self._states.pop(checkpoint_id, {}).values())

    def on_checkpoint_over(self, message: CheckpointAborted | CheckpointCompleted) -> None:
        self._states.pop(message.checkpoint_id, None)
        self._tell_all(message)

    def on_answer(
        self, message: AcknowledgeCheckpoint | DeclineCheckpoint
    ) -> AcknowledgeCheckpoint | DeclineCheckpoint:
        """Handle a subtask's response to a barrier. Returns it with the events that the subtask had sent before the
        barrier.
        """
        holder = self._holder_of(message.attempt)
        if holder is None or self._graph.execution(message.attempt) is None:
            return message
        if isinstance(message, AcknowledgeCheckpoint):
            message = replace(message, events=holder.in_flight(message.attempt, message.checkpoint_id))
        self._perform(holder.handle(message))
        return message

    def _tell_all(self, event: CoordinatorEvent) -> None:
        for holder in self._holders.values():
            self._perform(holder.handle(event))

    def _holder_of(self, attempt: ExecutionAttemptId) -> OperatorCoordinatorHolder | None:
        if not self._holders:
            return None
        vertex_id, _, _ = vertex_subtask_and_number(attempt, self._job_id)
        return self._holders.get(vertex_id)

    def _perform(self, effects: Iterable[CoordinatorEffect]) -> None:
        for effect in effects:
            match effect:
                case CallCoordinator(operator_id=operator_id, call=call, calls=calls):
                    self._call(self._coordinators[operator_id], operator_id, call, calls)
                case Tell(to=to, message=message):
                    if to is Role.JOB_LISTENERS:
                        self._tell_listeners(message)
                    else:
                        self._tell_attempt(to, message)
                case CoordinatorSnapshotted():
                    self._on_snapshotted(effect)
                case FailJob(cause=cause):
                    self._fail_job(cause)
                case Ignore():
                    pass
                case _:
                    assert_never(effect)

    def _update(self, effects: Iterable[AggregateEffect]) -> None:
        for effect in effects:
            match effect:
                case UpdateAggregates(updates=updates):
                    self._context.pipe_to_self(
                        partial(self._functions.update_aggregates, updates),
                        lambda message: message,
                        lambda error: GlobalAggregatesFailed(cause=serialized(error)),
                        executor=self._functions.thread,
                    )
                case Tell(to=attempt, message=message):
                    self._tell_attempt(attempt, message)
                case Ignore():
                    pass
                case _:
                    assert_never(effect)

    def _call(
        self, coordinator: _Coordinator, operator_id: OperatorId, call: int, calls: tuple[CoordinatorCall, ...]
    ) -> None:
        self._context.pipe_to_self(
            partial(coordinator.call_coordinator, calls),
            lambda answer: OperatorCoordinatorAnswered(operator_id=operator_id, call=call, answer=answer),
            lambda error: OperatorCoordinatorFailed(operator_id=operator_id, call=call, cause=serialized(error)),
            executor=coordinator.thread,
        )

    def _on_snapshotted(self, snapshotted: CoordinatorSnapshotted) -> None:
        checkpoint_id, operator_id = snapshotted.checkpoint_id, snapshotted.operator_id
        states = self._states.get(checkpoint_id)
        if states is None:
            return
        states[operator_id] = OperatorCoordinatorState(operator_id=operator_id, data=snapshotted.state)
        if len(states) == len(self._holders):
            self._report_snapshotted(SnapshotOperatorCoordinators(job_id=self._job_id, checkpoint_id=checkpoint_id))


class _Coordinator:
    """Calls the coordinator of one operator on its own thread, never in an actor's turn."""

    outside_state = True

    def __init__(self, operator: Operator, begin: Callable[[], OperatorCoordinatorCalls]) -> None:
        self._begin = begin
        self._name = operator.name

    @cached_property
    def thread(self) -> CoordinatorThread:
        return CoordinatorThread(f"flykka coordinator of {self._name}")

    @cached_property
    def _calls(self) -> OperatorCoordinatorCalls:
        return self._begin()

    def call_coordinator(self, calls: tuple[CoordinatorCall, ...]) -> CoordinatorAnswer:
        return self._calls.run(calls)


class _Aggregates:
    """Calls the functions of the global aggregates on their own thread."""

    outside_state = True

    def __init__(self, begin: Callable[[], GlobalAggregateFunctions], job_id: str) -> None:
        self._begin = begin
        self._job_id = job_id

    @cached_property
    def thread(self) -> CoordinatorThread:
        return CoordinatorThread(f"flykka global aggregates of {self._job_id}")

    @cached_property
    def _functions(self) -> GlobalAggregateFunctions:
        return self._begin()

    def update_aggregates(self, updates: tuple[AggregateUpdate, ...]) -> GlobalAggregatesUpdated:
        return GlobalAggregatesUpdated(results=self._functions.update(updates))


class CoordinatorThread:
    """Runs the calls of one user coordinator on a thread, in order.

    The thread ends when it has been idle for some time, so it needs no shutdown, even if its JobMaster is killed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[Pipe[Any]] = deque()
        self._runs = False

    def run_blocking(self, work: Pipe[Any]) -> None:
        with self._changed:
            self._waiting.append(work)
            self._changed.notify()
            if self._runs:
                return
            self._runs = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and not self._changed.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS):
                    self._runs = False
                    return
                work = self._waiting.popleft()
            work.run()
