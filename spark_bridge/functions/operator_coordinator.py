"""Coordinators of functions, with Flink's names: one object for all subtasks of an operator, next to the JobMaster.

In Flink a CoordinatedOperatorFactory creates such an operator and provides its coordinator. Here the function defines
the operator, so a `CoordinatedFunction` provides its own coordinator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.contexts import FunctionContext
from flykka.spark_bridge.functions.metric_group import MetricGroup
from flykka.spark_bridge.functions.process_function import Rows


class SubtaskGateway:
    """Sends events to one attempt of a subtask. May only be used within calls of the coordinator."""

    def __init__(self, subtask: int, attempt_number: int, send: Callable[[int, int, Any], None]) -> None:
        self._subtask = subtask
        self._attempt_number = attempt_number
        self._send = send

    def get_subtask(self) -> int:
        """Return the index of the subtask, from 0."""
        return self._subtask

    def get_attempt_number(self) -> int:
        """Return the number of the attempt, from 0."""
        return self._attempt_number

    def send_event(self, event: Any) -> None:
        """Send a plain value to the function. If the attempt has ended by then, the event is dropped.

        Raises:
            EventValueError: the event is not a plain value.
            OperatorCoordinatorError: this thread is not in a call of the coordinator.
        """
        self._send(self._subtask, self._attempt_number, event)


class OperatorCoordinatorContext(ABC):
    """The operator of a coordinator, and actions that the coordinator may request."""

    @property
    @abstractmethod
    def uid(self) -> str:
        """The uid of the operator."""

    @property
    @abstractmethod
    def operator_name(self) -> str:
        """The name of the operator."""

    @property
    @abstractmethod
    def current_parallelism(self) -> int:
        """The number of subtasks."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the coordinator's metrics, which are reported after each of its calls."""

    @abstractmethod
    def fail_job(self, cause: BaseException) -> None:
        """Fail the job, as if the current call had raised `cause`. Events sent in the call are still delivered."""

    @abstractmethod
    def run_in_coordinator_thread(self, action: Callable[[], object]) -> None:
        """Run an action between two calls, on their thread. Thread-safe. A restart of all tasks drops the action."""


class OperatorCoordinator(ABC):
    """Coordinates the subtasks of one operator. Its methods are called one at a time, on a separate thread.

    An exception of a method fails the job. After a restart of all tasks, the same object continues with
    `reset_to_checkpoint`; with a new JobMaster, a new object is started.
    """

    def start(self) -> None:  # noqa: B027 - a hook
        """Start. Called once, after `reset_to_checkpoint` if the job starts from a checkpoint."""

    def close(self) -> None:  # noqa: B027 - a hook
        """Release resources, because the job has ended or another coordinator replaces this one."""

    @abstractmethod
    def handle_event_from_operator(self, subtask: int, attempt_number: int, event: Any) -> None:
        """Handle an event that an attempt of a subtask has sent in a stage that has finished."""

    def checkpoint_coordinator(self, checkpoint_id: int) -> Any:
        """Return the coordinator's state for a checkpoint, which must be a plain value.

        Events sent before this call returns precede the checkpoint. Every later event is sent after the barrier has
        reached its subtask.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027 - a hook
        """Handle the completion of a checkpoint."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - a hook
        """Handle the abort of a checkpoint."""

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:  # noqa: B027 - a hook
        """Restore the state that was returned for a checkpoint, from which all subtasks of the operator restart.

        The state is None if the checkpoint has no state of this coordinator; the id is None as well if the job starts
        without a checkpoint. Events that were in flight to the coordinator at the checkpoint are handled next.
        """

    def subtask_ready(self, subtask: int, gateway: SubtaskGateway) -> None:  # noqa: B027 - a hook
        """Handle the start of a subtask's attempt, which can receive events now."""

    def subtask_failed(self, subtask: int, attempt_number: int, reason: str | None) -> None:  # noqa: B027 - a hook
        """Handle the failure of a subtask's attempt. Without a reason, the attempt was cancelled."""

    def subtask_reset(self, subtask: int, checkpoint_id: int | None) -> None:  # noqa: B027 - a hook
        """Handle the restart of a subtask from a checkpoint, after which it sends its later events again.

        Called between `subtask_failed` and `subtask_ready`, if other subtasks continue. The coordinator's state is not
        reset: undo the effects of this subtask's events after that checkpoint.
        """


class CoordinatedFunction(ABC):
    """Mixin for functions of rows that have a coordinator."""

    @abstractmethod
    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        """Return a new coordinator. Called in the driver, on the program's function and never on a copy."""

    def handle_operator_event(self, event: Any, ctx: FunctionContext) -> Rows:
        """Emit rows for an event of the coordinator. There is no current key.

        Called once per event, between two batches, by one copy of the function. To remember something, use the operator
        state of a `CheckpointedFunction`, with which all copies start.
        """
        raise FunctionError(
            f"the coordinator of {type(self).__name__} has sent an event, but the function has no"
            " handle_operator_event(event, ctx)"
        )
