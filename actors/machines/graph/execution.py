"""An attempt to run one subtask, as the JobMaster sees it (Flink's Execution).

Decides the state of an attempt, and how a command or a report is handled in that state. `execution_graph` applies the
returned effects to the job.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.graph.events import ExecutionMoved
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.actors.machines.states import EXECUTION_TERMINAL, execution_may_move
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.task import CancelTask, ExecutionState, TaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveSlot:
    """Release the slot in which the attempt ran, or its slot request if `slot` is `None`.

    Unless `has_finished`, another attempt of the subtask may follow.
    """

    attempt: ExecutionAttemptId
    slot: AssignedSlot | None
    has_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolViolated:
    """A report that this attempt cannot have sent. The state of the job is inconsistent, so the whole job fails."""

    attempt: ExecutionAttemptId
    cause: SerializedThrowable


AttemptEffect = ExecutionMoved | Tell[Ref] | LeaveSlot | ProtocolViolated | Ignore


class Execution:
    """An attempt: its state, its slot, and the time of each state change (ms)."""

    def __init__(
        self, *, attempt: ExecutionAttemptId, number: int, vertex_id: JobVertexId, subtask: int, name: str, now: int
    ) -> None:
        self.attempt = attempt
        self.number = number
        self.vertex_id = vertex_id
        self.subtask = subtask
        self.name = name
        self.state = ExecutionState.CREATED
        self.timestamps = {ExecutionState.CREATED: now}
        self.slot: AssignedSlot | None = None
        self.failure: SerializedThrowable | None = None
        self.restore: TaskStateSnapshot | None = None
        self.restored_checkpoint_id: int | None = None
        self.waits_for_state = True
        self.has_reached_end_of_data = False
        self.accumulators: tuple[AccumulatorSnapshot, ...] = ()
        self.readers: set[tuple[JobVertexId, int]] = set()
        """The subtasks whose attempts have read this attempt's output, recorded if readers may reconnect."""

    @property
    def is_terminal(self) -> bool:
        return self.state in EXECUTION_TERMINAL

    def schedule(self, now: int) -> list[AttemptEffect]:
        if self.state is not ExecutionState.CREATED:
            return [self._ignore("scheduling")]
        return [self._move(ExecutionState.SCHEDULED, now)]

    def assign(self, slot: AssignedSlot) -> bool:
        """Assign the slot. Returns False if the attempt needs no slot; the caller then returns the slot."""
        if self.slot is not None or self.state not in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
            return False
        self.slot = slot
        return True

    def start_from(self, checkpoint_id: int | None, state: TaskStateSnapshot | None) -> None:
        self.restored_checkpoint_id, self.restore = checkpoint_id, state
        self.waits_for_state = False

    def deploy(self, now: int) -> list[AttemptEffect]:
        """Submit the attempt to its TaskManager. Raises `IllegalTransitionError` if it has no slot."""
        if self.slot is None:
            raise IllegalTransitionError(f"{self.attempt} cannot be deployed: it has no slot")
        change = self._move(ExecutionState.DEPLOYING, now)
        # The TaskManager has the state now. Large jobs have too many handles to store them twice.
        self.restore = None
        return [change]

    def cancel(self, now: int) -> list[AttemptEffect]:
        """Cancel the attempt: at once if not deployed, else when the task reports its end. No effect after the end."""
        if self.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
            # The attempt is CANCELING only for this moment: the timestamp records that, and listeners are not
            # notified.
            self.timestamps[ExecutionState.CANCELING] = now
            return self._end(ExecutionState.CANCELED, now)
        if not execution_may_move(self.state, ExecutionState.CANCELING):
            return []
        return [self._move(ExecutionState.CANCELING, now), *self._cancel_task()]

    def fail(self, cause: SerializedThrowable, now: int) -> list[AttemptEffect]:
        """Fail an attempt that has failed or is lost. If it was being cancelled, it becomes CANCELED."""
        if self.is_terminal:
            return [self._ignore("a failure")]
        if self.state is ExecutionState.CANCELING:
            return self._end(ExecutionState.CANCELED, now)
        self.failure = cause
        return self._end(ExecutionState.FAILED, now)

    def deployment_timed_out(self, timeout_ms: int, now: int) -> list[AttemptEffect]:
        """Fail an attempt that was not acknowledged, and cancel it, because its TaskManager may run it nevertheless."""
        assert self.slot is not None, f"{self.attempt} was deployed without a slot"
        text = (
            f"{self.name} ({self.attempt}) cannot be deployed: {self.slot.task_manager_id} has not acknowledged it"
            f" within the RPC timeout of {timeout_ms} ms"
        )
        is_to_be_cancelled = self.state is ExecutionState.DEPLOYING
        effects = self.fail(SerializedThrowable(type_name="DeploymentTimeoutError", message=text), now)
        return [*effects, *self._cancel_task()] if is_to_be_cancelled else effects

    def update(self, update: TaskExecutionState, now: int) -> list[AttemptEffect]:
        """Handle a report of the task. Only the accumulators of a final report are stored."""
        if update.state in EXECUTION_TERMINAL and not self.is_terminal:
            self.accumulators = update.accumulators
        match update.state:
            case ExecutionState.RUNNING:
                return self._on_running(now)
            case ExecutionState.FINISHED:
                return self._on_finished(now)
            case ExecutionState.CANCELED:
                return self._on_canceled(now)
            case ExecutionState.FAILED:
                return self.fail(update.failure or _without_cause(self.attempt), now)
            case _:
                return [self._ignore(f"the report {update.state}, which the JobMaster knows by itself")]

    def _on_running(self, now: int) -> list[AttemptEffect]:
        if self.state is ExecutionState.DEPLOYING:
            return [self._move(ExecutionState.RUNNING, now)]
        if self.state is ExecutionState.FAILED and self.slot is not None:
            # The attempt was failed when its TaskManager was considered lost, but both are alive.
            return self._cancel_task()
        return [self._ignore("the report RUNNING")]

    def _on_finished(self, now: int) -> list[AttemptEffect]:
        if self.state is ExecutionState.CANCELING:
            return self._end(ExecutionState.CANCELED, now)
        if execution_may_move(self.state, ExecutionState.FINISHED):
            return self._end(ExecutionState.FINISHED, now)
        if self.is_terminal:
            return [self._ignore("the report FINISHED")]
        return self.fail(self._impossible("FINISHED"), now)

    def _on_canceled(self, now: int) -> list[AttemptEffect]:
        if self.state in (ExecutionState.CANCELING, ExecutionState.RUNNING, ExecutionState.DEPLOYING):
            return self._end(ExecutionState.CANCELED, now)
        if self.state in (ExecutionState.CANCELED, ExecutionState.FAILED):
            return [self._ignore("the report CANCELED")]
        return [ProtocolViolated(attempt=self.attempt, cause=self._impossible("CANCELED"))]

    def _end(self, state: ExecutionState, now: int) -> list[AttemptEffect]:
        is_scheduled = self.state is not ExecutionState.CREATED
        change = self._move(state, now)
        if not is_scheduled:
            return [change]
        has_finished = state is ExecutionState.FINISHED
        return [LeaveSlot(attempt=self.attempt, slot=self.slot, has_finished=has_finished), change]

    def _move(self, state: ExecutionState, now: int) -> ExecutionMoved:
        previous = self.state
        if not execution_may_move(previous, state):
            raise IllegalTransitionError(f"{self.attempt} is {previous} and cannot become {state}")
        self.state = state
        self.timestamps[state] = now
        return ExecutionMoved(
            attempt=self.attempt,
            task_name=self.name,
            previous=previous,
            state=state,
            task_manager_id=self.slot.task_manager_id if self.slot else None,
            failure=self.failure,
        )

    def _cancel_task(self) -> list[AttemptEffect]:
        assert self.slot is not None, f"{self.attempt} is {self.state} without a slot"
        return [Tell(to=self.slot.task_manager, message=CancelTask(attempt=self.attempt))]

    def _ignore(self, what: str) -> Ignore:
        return Ignore(reason=f"{self.attempt} is {self.state}: {what} changes nothing")

    def _impossible(self, report: str) -> SerializedThrowable:
        return SerializedThrowable(
            type_name="IllegalStateError", message=f"{self.attempt} is {self.state} and was reported {report}"
        )


def _without_cause(attempt: ExecutionAttemptId) -> SerializedThrowable:
    return SerializedThrowable(type_name="TaskFailedError", message=f"{attempt} was reported FAILED without a cause")
