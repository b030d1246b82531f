"""Coordinators of functions, by Flink's names: one object for all subtasks of an operator, beside the JobMaster.

In Flink an operator that has one is made by a CoordinatedOperatorFactory, which gives the provider of its coordinator;
here a function is what its operator is made of, so a `CoordinatedFunction` brings its own.
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
    """The way to one attempt of a subtask. Used within the calls of its coordinator only."""

    def __init__(self, subtask: int, attempt_number: int, send: Callable[[int, int, Any], None]) -> None:
        self._subtask = subtask
        self._attempt_number = attempt_number
        self._send = send

    def get_subtask(self) -> int:
        """Return the number of the subtask, from 0."""
        return self._subtask

    def get_attempt_number(self) -> int:
        """Return the number of the attempt, from 0."""
        return self._attempt_number

    def send_event(self, event: Any) -> None:
        """Send a plain value to the function. Where the attempt has ended by then, it goes nowhere.

        Raises:
            EventValueError: it is no plain value.
            OperatorCoordinatorError: no call of the coordinator is at work on this thread.
        """
        self._send(self._subtask, self._attempt_number, event)


class OperatorCoordinatorContext(ABC):
    """The operator as its coordinator knows it, and actions of the coordinator beside its answers."""

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
        """Return the coordinator's metrics. They are told behind each of its calls."""

    @abstractmethod
    def fail_job(self, cause: BaseException) -> None:
        """Fail the job, as if the call at work had raised this; what was sent in it counts."""

    @abstractmethod
    def run_in_coordinator_thread(self, action: Callable[[], object]) -> None:
        """Have something run between two calls, on their thread; from any thread. A restart of all tasks drops it."""


class OperatorCoordinator(ABC):
    """Coordinates the subtasks of one operator. Its methods are called one at a time, on a thread of its own.

    What one of them raises fails the job. After a restart of all tasks the same object goes on, from
    `reset_to_checkpoint`; another one begins where the JobMaster is another.
    """

    def start(self) -> None:  # noqa: B027 - a hook
        """Begin: called once, behind `reset_to_checkpoint` where the job begins from a checkpoint."""

    def close(self) -> None:  # noqa: B027 - a hook
        """Let go of what was taken: the job has ended, or another coordinator takes the place of this one."""

    @abstractmethod
    def handle_event_from_operator(self, subtask: int, attempt_number: int, event: Any) -> None:
        """An attempt of a subtask has sent an event, in a stage that has finished."""

    def checkpoint_coordinator(self, checkpoint_id: int) -> Any:
        """Return the state for a checkpoint, a plain value.

        Every event that was sent before it returns is of the time before the checkpoint, and every later one waits for
        the barrier of its subtask.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027 - a hook
        """A checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - a hook
        """A checkpoint was given up."""

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:  # noqa: B027 - a hook
        """All subtasks of the operator begin again from a checkpoint: go back to the state that was returned for it.

        The state is None where the checkpoint holds none of this coordinator; and so is the id, where the job begins
        without one. Events that were on their way to the coordinator then are handled next.
        """

    def subtask_ready(self, subtask: int, gateway: SubtaskGateway) -> None:  # noqa: B027 - a hook
        """An attempt of a subtask runs, and can be sent events."""

    def subtask_failed(self, subtask: int, attempt_number: int, reason: str | None) -> None:  # noqa: B027 - a hook
        """An attempt of a subtask has failed; without a reason it was cancelled."""

    def subtask_reset(self, subtask: int, checkpoint_id: int | None) -> None:  # noqa: B027 - a hook
        """A subtask begins again, from a checkpoint, and sends again what it has sent since.

        Called between `subtask_failed` and `subtask_ready`, where other subtasks go on as they are. The state of the
        coordinator is left as it is: take back what came of the subtask behind that checkpoint.
        """


class CoordinatedFunction(ABC):
    """Has a coordinator: a base beside that of a function which is called row by row."""

    @abstractmethod
    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        """Return a new coordinator. Called in the driver, on the function as it was written down: never on a copy."""

    def handle_operator_event(self, event: Any, ctx: FunctionContext) -> Rows:
        """Emit rows for an event of the coordinator; there is no key at work.

        Called once for each event, between two batches, by one copy of the function. What has to be remembered is state
        of the subtask, which all copies begin with: that of a `CheckpointedFunction`.
        """
        raise FunctionError(
            f"the coordinator of {type(self).__name__} has sent an event, and it has no handle_operator_event(event,"
            " ctx)"
        )
