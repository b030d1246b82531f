"""The coordinator of one operator, as its JobMaster handles it (Flink's OperatorCoordinatorHolder).

Decides which calls the coordinator gets, and in which order; which attempts its events reach, and when; and which of
its state and events belong to a checkpoint. The coordinator's code runs on another thread, one batch of calls at a
time, so that it is always known which calls it has handled. A call for a checkpoint is the last in its batch, so that
events sent before it belong to the time before the checkpoint.

A checkpoint is a consistent cut through coordinator and subtasks. Events that the coordinator sends after its snapshot
wait for the barriers (`SubtaskGateway`). Events that it receives after its snapshot, but that were sent before the
barrier of their subtask, are in flight: they belong to the checkpoint, and a job that restores it handles them again.
Flink leaves such events to its operators.

Not here: the thread, the user's code, and the TaskManagers of attempts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, assert_never

from flykka.actors.machines.effects import FailJob, Ignore, Role, Tell
from flykka.actors.machines.sources.source_events import SubtaskReset
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    OperatorEventInFlight,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks import operator_event
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    ExecutionAttemptId,
    JobId,
    JobVertexId,
    OperatorId,
    attempt_id,
    vertex_subtask_and_number,
)

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReset:
    """All subtasks of the operator restart, from the state of a checkpoint or else from the beginning."""

    checkpoint_id: int | None
    state: OperatorCoordinatorState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReady:
    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTerminated:
    """An attempt has ended. `is_failed` is also True for a cancelled attempt, which has no reason."""

    attempt: ExecutionAttemptId
    is_failed: bool
    reason: SerializedThrowable | None = None


CoordinatorEvent = (
    CoordinatorReset
    | AttemptReady
    | AttemptTerminated
    | SubtaskReset
    | operator_event.SendOperatorEvents
    | SnapshotOperatorCoordinators
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointAborted
    | CheckpointCompleted
    | operator_event.OperatorCoordinatorAnswered
    | operator_event.OperatorCoordinatorFailed
    | operator_event.OperatorCoordinatorWoken
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCoordinator:
    """Make these calls in order on the thread of the coordinator. The reply has the number `call`."""

    operator_id: OperatorId
    call: int
    calls: tuple[operator_event.CoordinatorCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSnapshotted:
    """Record the state of the coordinator for a checkpoint. Its events now wait for the subtasks' barriers."""

    operator_id: OperatorId
    checkpoint_id: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAggregates:
    """Add these values to aggregates, in order, on the aggregates' own thread."""

    updates: tuple[operator_event.AggregateUpdate, ...]


CoordinatorAddress = ExecutionAttemptId | Literal[Role.JOB_LISTENERS]
CoordinatorEffect = CallCoordinator | Tell[CoordinatorAddress] | CoordinatorSnapshotted | FailJob | Ignore
AggregateEffect = UpdateAggregates | Tell[ExecutionAttemptId] | Ignore


class GlobalAggregates:
    """Global aggregates of one job (the JobMaster's side of Flink's GlobalAggregateManager).

    Subtasks add values. The actor folds them with user code, one batch of updates at a time. Results go to all attempts
    that have added to the same aggregate. As in Flink, aggregates are not part of checkpoints, and a restart of tasks
    does not reset them.

    The alignment of watermarks does not use global aggregates, unlike Flink's Kinesis consumer: it drops the report of
    a restarted reader, ignores idle readers, and decides everything in one turn, without user code.
    """

    def __init__(self) -> None:
        self._readers: dict[str, dict[ExecutionAttemptId, None]] = {}
        self._waiting: list[operator_event.AggregateUpdate] = []
        self._is_at_work = False

    def on_updates(self, message: operator_event.SendOperatorEvents) -> list[AggregateEffect]:
        for update in message.sent.updates:
            self._readers.setdefault(update.name, {})[message.attempt] = None
            self._waiting.append(update)
        return self._update_next()

    def on_updated(self, updated: operator_event.GlobalAggregatesUpdated) -> list[AggregateEffect]:
        if not self._is_at_work:
            return [Ignore(reason="no update of an aggregate is running")]
        self._is_at_work = False
        effects: list[AggregateEffect] = []
        by_attempt: dict[ExecutionAttemptId, list[int]] = {}
        for place, result in enumerate(updated.results):
            for attempt in self._readers.get(result.name, ()):
                by_attempt.setdefault(attempt, []).append(place)
        for attempt, places in by_attempt.items():
            results = tuple(updated.results[place] for place in places)
            effects.append(
                Tell(to=attempt, message=operator_event.GlobalAggregateResults(attempt=attempt, results=results))
            )
        return [*effects, *self._update_next()]

    def on_failed(self) -> list[AggregateEffect]:
        """Continue with the waiting updates after a user function has raised an error, which fails the job."""
        self._is_at_work = False
        return self._update_next()

    def attempt_ended(self, attempt: ExecutionAttemptId) -> None:
        for readers in self._readers.values():
            readers.pop(attempt, None)

    def check(self) -> None:
        assert self._is_at_work or not self._waiting, "updates are queued although no update is running"

    def _update_next(self) -> list[AggregateEffect]:
        if self._is_at_work or not self._waiting:
            return []
        updates, self._waiting = tuple(self._waiting), []
        self._is_at_work = True
        return [UpdateAggregates(updates=updates)]


class OperatorCoordinatorHolder:
    """The coordinator of the operator at the head of a vertex, whose subtasks are 0 to `parallelism` - 1."""

    def __init__(self, job_id: JobId, vertex_id: JobVertexId, operator_id: OperatorId, *, parallelism: int) -> None:
        self._job_id = job_id
        self._vertex_id = vertex_id
        self._operator_id = operator_id
        self.parallelism = parallelism
        self._gateways = [SubtaskGateway() for _ in range(parallelism)]
        self._is_started = False
        self._queue: deque[operator_event.CoordinatorCall] = deque()
        # Checkpoints that wait until all subtasks have passed the barriers of earlier ones.
        self._to_begin: deque[int] = deque()
        # Maps a checkpoint to the events that were sent before its barriers and are handled after the coordinator's
        # own snapshot.
        self._in_flight: dict[int, list[OperatorEventInFlight]] = {}
        self._calls = 0
        self._at_work: tuple[operator_event.CoordinatorCall, ...] | None = None
        self._is_stale = False
        """True if the current calls began before a reset, so that their reply is ignored."""
        self._metrics: tuple[AccumulatorSnapshot, ...] = ()

    def handle(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        return [*self._handle(event), *self._call_next()]

    def _handle(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        match event:
            case operator_event.SendOperatorEvents():
                return self._on_events(event)
            case operator_event.OperatorCoordinatorAnswered(call=call, answer=answer):
                return self._on_answered(call, answer)
            case operator_event.OperatorCoordinatorFailed(call=call, cause=cause):
                calls = self._end_call(call)
                return [FailJob(cause=cause)] if calls else []
            case operator_event.OperatorCoordinatorWoken():
                if operator_event.RunActions() not in self._queue:
                    self._queue.append(operator_event.RunActions())
                return []
            case AttemptReady(attempt=attempt):
                subtask, number = self._place(attempt)
                self._gateways[subtask] = SubtaskGateway(attempt_number=number)
                self._queue.append(operator_event.SubtaskReady(subtask=subtask, attempt_number=number))
                return []
            case AttemptTerminated():
                return self._on_terminated(event)
            case SubtaskReset(subtask=subtask, checkpoint_id=checkpoint_id):
                self._queue.append(operator_event.ResetSubtask(subtask=subtask, checkpoint_id=checkpoint_id))
                return []
            case CoordinatorReset():
                return self._on_reset(event)
            case SnapshotOperatorCoordinators(checkpoint_id=checkpoint_id):
                self._to_begin.append(checkpoint_id)
                return []
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                subtask, _ = self._place(event.attempt)
                return self._send(subtask, self._gateways[subtask].pass_barriers(event.checkpoint_id))
            case CheckpointCompleted(checkpoint_id=checkpoint_id, is_retained=is_retained):
                # Nothing is committed for a savepoint after which the job continues.
                if is_retained:
                    self._queue.append(operator_event.CheckpointComplete(checkpoint_id=checkpoint_id))
                return self._end_checkpoint(checkpoint_id)
            case CheckpointAborted(checkpoint_id=checkpoint_id):
                self._queue.append(operator_event.CheckpointWasAborted(checkpoint_id=checkpoint_id))
                return self._end_checkpoint(checkpoint_id)
            case _:
                assert_never(event)

    def in_flight(self, attempt: ExecutionAttemptId, checkpoint_id: int) -> tuple[OperatorEventInFlight, ...]:
        """Return the events of an attempt that are added to its acknowledgement of a checkpoint."""
        subtask, _ = self._place(attempt)
        return tuple(each for each in self._in_flight.get(checkpoint_id, ()) if each.subtask == subtask)

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._at_work or ())

    def check(self) -> None:
        for gateway in self._gateways:
            gateway.check()
        assert self._at_work is not None or not self._queue or not self._is_started, (
            "calls are queued although no call is running"
        )
        assert not self._is_stale or self._at_work is not None, "a result is to be ignored although no call is running"

    # Events

    def _place(self, attempt: ExecutionAttemptId) -> tuple[int, int]:
        _, subtask, number = vertex_subtask_and_number(attempt, self._job_id)
        return subtask, number

    def _on_events(self, message: operator_event.SendOperatorEvents) -> list[CoordinatorEffect]:
        subtask, number = self._place(message.attempt)
        if self._gateways[subtask].attempt_number != number:
            return [Ignore(reason=f"{message.attempt} does not run")]
        for event in message.sent.events:
            self._queue.append(
                operator_event.HandleEventFromOperator(subtask=subtask, attempt_number=number, event=event)
            )
            in_flight = OperatorEventInFlight(
                operator_id=self._operator_id, subtask=subtask, attempt_number=number, event=event
            )
            for checkpoint_id, events in self._in_flight.items():
                if message.checkpoint_id < checkpoint_id:
                    events.append(in_flight)
        return []

    def _on_terminated(self, event: AttemptTerminated) -> list[CoordinatorEffect]:
        subtask, number = self._place(event.attempt)
        gateway = self._gateways[subtask]
        if gateway.attempt_number == number:
            self._gateways[subtask] = SubtaskGateway()
        if event.is_failed:
            self._queue.append(
                operator_event.SubtaskFailed(subtask=subtask, attempt_number=number, reason=event.reason)
            )
        return []

    def _on_reset(self, reset: CoordinatorReset) -> list[CoordinatorEffect]:
        # Reports about failed attempts stay valid. The restart undoes the events of the attempts.
        self._queue = deque(call for call in self._queue if isinstance(call, operator_event.SubtaskFailed))
        self._to_begin.clear()
        self._in_flight.clear()
        self._gateways = [SubtaskGateway() for _ in self._gateways]
        self._is_stale = self._at_work is not None
        state = reset.state
        if self._is_started or reset.checkpoint_id is not None:
            data = None if state is None else state.data
            self._queue.append(operator_event.ResetToCheckpoint(checkpoint_id=reset.checkpoint_id, state=data))
        if not self._is_started:
            self._is_started = True
            self._queue.append(operator_event.StartCoordinator())
        self._queue.extend(
            operator_event.HandleEventFromOperator(
                subtask=each.subtask, attempt_number=each.attempt_number, event=each.event
            )
            for each in (() if state is None else state.events)
        )
        return []

    # Checkpoints

    def _end_checkpoint(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        self._in_flight.pop(checkpoint_id, None)
        if checkpoint_id in self._to_begin:
            self._to_begin.remove(checkpoint_id)
        call = operator_event.CheckpointOperatorCoordinator(checkpoint_id=checkpoint_id)
        if call in self._queue:
            self._queue.remove(call)
        return [
            effect
            for subtask, gateway in enumerate(self._gateways)
            for effect in self._send(subtask, gateway.forget(checkpoint_id))
        ]

    @property
    def _may_begin_checkpoint(self) -> bool:
        """True if no event waits for a barrier: it would be sent after this checkpoint's barrier, and be lost."""
        is_begun = any(
            isinstance(call, operator_event.CheckpointOperatorCoordinator)
            for call in (*self._queue, *(self._at_work or ()))
        )
        return not is_begun and all(gateway.is_open for gateway in self._gateways)

    # Calls

    def _call_next(self) -> list[CallCoordinator]:
        if self._to_begin and self._may_begin_checkpoint:
            checkpoint_id = self._to_begin.popleft()
            self._in_flight[checkpoint_id] = []
            self._queue.append(operator_event.CheckpointOperatorCoordinator(checkpoint_id=checkpoint_id))
        if self._at_work is not None or not self._queue or not self._is_started:
            return []
        calls: list[operator_event.CoordinatorCall] = []
        while self._queue and not (calls and isinstance(calls[-1], operator_event.CheckpointOperatorCoordinator)):
            calls.append(self._queue.popleft())
        self._calls += 1
        self._at_work = tuple(calls)
        return [CallCoordinator(operator_id=self._operator_id, call=self._calls, calls=self._at_work)]

    def _end_call(self, call: int) -> tuple[operator_event.CoordinatorCall, ...]:
        """Record that the calls with this number have ended. Returns the calls, or `()` if their reply is ignored."""
        if call != self._calls or self._at_work is None:
            return ()
        calls, self._at_work = self._at_work, None
        is_stale, self._is_stale = self._is_stale, False
        return () if is_stale else calls

    def _on_answered(self, call: int, answer: operator_event.CoordinatorAnswer) -> list[CoordinatorEffect]:
        calls = self._end_call(call)
        if not calls:
            return [Ignore(reason=f"call {call} was made before the coordinator was reset")]
        effects = self._sent(answer.events)
        last = calls[-1]
        if isinstance(last, operator_event.CheckpointOperatorCoordinator) and last.checkpoint_id in self._in_flight:
            assert answer.state is not None, f"the coordinator of {self._operator_id} returned no state"
            for gateway in self._gateways:
                gateway.close(last.checkpoint_id)
            snapshotted = CoordinatorSnapshotted(
                operator_id=self._operator_id, checkpoint_id=last.checkpoint_id, state=answer.state
            )
            effects.append(snapshotted)
        if answer.metrics != self._metrics:
            self._metrics = answer.metrics
            report = operator_event.OperatorCoordinatorMetricsReported(
                job_id=self._job_id,
                vertex_id=self._vertex_id,
                operator_id=self._operator_id,
                metrics=answer.metrics,
            )
            effects.append(Tell(to=Role.JOB_LISTENERS, message=report))
        if answer.failure is not None:
            effects.append(FailJob(cause=answer.failure))
        return effects

    def _sent(self, events: tuple[operator_event.EventForSubtask, ...]) -> list[CoordinatorEffect]:
        by_attempt: dict[tuple[int, int], list[bytes]] = {}
        for each in events:
            by_attempt.setdefault((each.subtask, each.attempt_number), []).append(each.event)
        return [
            effect
            for (subtask, number), payloads in by_attempt.items()
            for effect in self._send(subtask, self._gateways[subtask].send(number, payloads))
        ]

    def _send(self, subtask: int, events: list[bytes]) -> list[CoordinatorEffect]:
        number = self._gateways[subtask].attempt_number
        if not events or number is None:
            return []
        attempt = attempt_id(self._job_id, self._vertex_id, subtask, number)
        message = operator_event.OperatorEvents(attempt=attempt, operator_id=self._operator_id, events=tuple(events))
        return [Tell(to=attempt, message=message)]


@dataclass(slots=True, kw_only=True)
class SubtaskGateway:
    """Events of a coordinator for one subtask (Flink's SubtaskGateway).

    After the coordinator's snapshot for a checkpoint, events wait here until the subtask has passed the barrier: the
    state of the coordinator does not contain them, so the state of the subtask must not either. If no attempt runs,
    `attempt_number` is `None`, and events are dropped.
    """

    attempt_number: int | None = None
    closed_for: tuple[int, ...] = ()
    held: list[bytes] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return not self.closed_for

    def send(self, attempt_number: int, events: list[bytes]) -> list[bytes]:
        if attempt_number != self.attempt_number:
            return []
        if self.is_open:
            return events
        self.held += events
        return []

    def close(self, checkpoint_id: int) -> None:
        if self.attempt_number is not None:
            self.closed_for += (checkpoint_id,)

    def pass_barriers(self, up_to: int) -> list[bytes]:
        """Return the held events that may be sent, because the subtask has passed all barriers up to this one."""
        return self._reopen(tuple(each for each in self.closed_for if each > up_to))

    def forget(self, checkpoint_id: int) -> list[bytes]:
        return self._reopen(tuple(each for each in self.closed_for if each != checkpoint_id))

    def _reopen(self, closed_for: tuple[int, ...]) -> list[bytes]:
        self.closed_for = closed_for
        if closed_for:
            return []
        events, self.held = self.held, []
        return events

    def check(self) -> None:
        assert self.closed_for or not self.held, "events are held back although no barrier is expected"
        assert self.attempt_number is not None or not self.closed_for, "a barrier is expected but no attempt runs"
