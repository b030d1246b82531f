"""Tests that a coordinator is called on one thread, returns values, and fails with the name of its operator."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.operator_event import (
    CheckpointComplete,
    CheckpointOperatorCoordinator,
    CheckpointWasAborted,
    CoordinatorAnswer,
    CoordinatorCall,
    EventForSubtask,
    HandleEventFromOperator,
    ResetSubtask,
    ResetToCheckpoint,
    RunActions,
    StartCoordinator,
    SubtaskFailed,
    SubtaskReady,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import OperatorCoordinatorError
from flykka.spark_bridge.functions.event_values import event_from_bytes, event_to_bytes
from flykka.spark_bridge.functions.operator_coordinator import (
    CoordinatedFunction,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    SubtaskGateway,
)
from flykka.spark_bridge.operators.coordinator_runner import CoordinatorRunner


class Noting(OperatorCoordinator):
    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.context = context
        self.calls: list[Any] = []
        self.gateways: dict[int, SubtaskGateway] = {}
        self.counter = context.get_metrics_group().counter("events")

    def start(self) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")

    def handle_event_from_operator(self, subtask: int, attempt_number: int, event: Any) -> None:
        self.calls.append((subtask, attempt_number, event))
        self.counter.inc()
        if event == "raise":
            raise ValueError("no")
        if event == "fail":
            self.context.fail_job(ValueError("rather not"))
        if event == "answer":
            self.gateways[subtask].send_event({"to": subtask})

    def checkpoint_coordinator(self, checkpoint_id: int) -> Any:
        return ["state", checkpoint_id]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.calls.append(("aborted", checkpoint_id))

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        self.calls.append(("reset", checkpoint_id, state))

    def subtask_ready(self, subtask: int, gateway: SubtaskGateway) -> None:
        self.calls.append(("ready", gateway.get_subtask(), gateway.get_attempt_number()))
        self.gateways[subtask] = gateway

    def subtask_failed(self, subtask: int, attempt_number: int, reason: str | None) -> None:
        self.calls.append(("failed", subtask, attempt_number, reason))

    def subtask_reset(self, subtask: int, checkpoint_id: int | None) -> None:
        self.calls.append(("subtask reset", subtask, checkpoint_id))


class Function(CoordinatedFunction):
    def get_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator:
        self.made = Noting(context)
        return self.made


class RunnerHarness:
    """A coordinator runner, and the number of its wake-ups."""

    def __init__(self, function: CoordinatedFunction | None = None) -> None:
        self.function = Function()
        self.woken = 0
        self.runner = CoordinatorRunner(
            self.function if function is None else function,
            operator_id=OperatorId("id"),
            uid="numbers",
            description="'numbers' (app.py:3)",
            name="process(Numbers)",
            parallelism=2,
            woken=self.wake,
        )

    def wake(self) -> None:
        self.woken += 1

    def run(self, *calls: CoordinatorCall) -> CoordinatorAnswer:
        return self.runner.run(calls)

    @property
    def coordinator(self) -> Noting:
        return self.function.made


def event(value: Any, subtask: int = 0) -> HandleEventFromOperator:
    return HandleEventFromOperator(subtask=subtask, attempt_number=1, event=event_to_bytes(value, "an event"))


READY = SubtaskReady(subtask=0, attempt_number=1)


def test_each_call_invokes_its_method() -> None:
    harness = RunnerHarness()
    state = event_to_bytes({"next": 4}, "a state")
    reason = SerializedThrowable(type_name="ValueError", message="no")

    harness.run(
        ResetToCheckpoint(checkpoint_id=3, state=state),
        StartCoordinator(),
        READY,
        SubtaskFailed(subtask=0, attempt_number=1, reason=reason),
        SubtaskFailed(subtask=1, attempt_number=0),
        ResetSubtask(subtask=0, checkpoint_id=3),
        event({"id": 7}),
        CheckpointComplete(checkpoint_id=4),
        CheckpointWasAborted(checkpoint_id=5),
        ResetToCheckpoint(checkpoint_id=None, state=None),
    )
    harness.runner.close(timeout_seconds=1)

    assert harness.coordinator.calls == [
        ("reset", 3, {"next": 4}),
        "start",
        ("ready", 0, 1),
        ("failed", 0, 1, "ValueError: no"),
        ("failed", 1, 0, None),
        ("subtask reset", 0, 3),
        (0, 1, {"id": 7}),
        ("complete", 4),
        ("aborted", 5),
        ("reset", None, None),
        "close",
    ]
    context = harness.coordinator.context
    assert (context.uid, context.operator_name, context.current_parallelism) == ("numbers", "process(Numbers)", 2)


def test_a_result_contains_sent_events_state_and_metrics() -> None:
    harness = RunnerHarness()

    answer = harness.run(READY, event("answer"), CheckpointOperatorCoordinator(checkpoint_id=2))

    assert answer == CoordinatorAnswer(
        events=(EventForSubtask(subtask=0, attempt_number=1, event=event_to_bytes({"to": 0}, "an event")),),
        state=event_to_bytes(["state", 2], "a state"),
        metrics=(
            AccumulatorSnapshot(
                name="process(Numbers).events",
                type=AccumulatorType.LONG_COUNTER,
                count=1,
                operator_id=OperatorId("id"),
                operator_name="process(Numbers)",
            ),
        ),
    )
    (counted,) = harness.run(event("x"), event("y")).metrics
    assert counted.count == 3


def test_an_error_names_operator_and_method() -> None:
    text = "the coordinator of operator 'numbers' .app.py:3. failed in handle_event_from_operator: ValueError: no"
    with pytest.raises(OperatorCoordinatorError, match=text):
        RunnerHarness().run(StartCoordinator(), event("raise"))


def test_a_coordinator_can_fail_the_job() -> None:
    failure = RunnerHarness().run(event("fail")).failure

    assert failure is not None
    assert failure.type_name == "OperatorCoordinatorError"
    assert "failed in fail_job: ValueError: rather not" in failure.message


def test_a_value_that_is_not_a_coordinator_is_refused() -> None:
    class Nothing(CoordinatedFunction):
        def get_coordinator(self, context: OperatorCoordinatorContext) -> Any:
            return None

    with pytest.raises(OperatorCoordinatorError, match=r"failed in get_coordinator: .* not None"):
        RunnerHarness(Nothing()).run(StartCoordinator())


def test_a_users_thread_sends_events_through_an_action() -> None:
    harness = RunnerHarness()
    harness.run(READY)
    gateway, context = harness.coordinator.gateways[0], harness.coordinator.context
    with pytest.raises(OperatorCoordinatorError, match=r"outside of a call: .*run_in_coordinator_thread"):
        gateway.send_event("now")

    other = threading.Thread(target=lambda: context.run_in_coordinator_thread(lambda: gateway.send_event("later")))
    other.start()
    other.join()

    assert harness.woken == 1
    (sent,) = harness.run(RunActions()).events
    assert event_from_bytes(sent.event) == "later"
    assert harness.run(RunActions()).events == ()


def test_actions_queued_before_a_reset_are_dropped() -> None:
    harness = RunnerHarness()
    harness.run(READY)
    done: list[str] = []
    harness.coordinator.context.run_in_coordinator_thread(lambda: done.append("done"))

    harness.run(ResetToCheckpoint(checkpoint_id=1, state=None), RunActions())

    assert done == []


def test_a_closed_coordinator_is_not_called_and_a_blocked_one_is_abandoned() -> None:
    harness = RunnerHarness()
    harness.run(StartCoordinator())
    with harness.runner._lock, pytest.raises(OperatorCoordinatorError, match="has not returned from a call within 0 s"):
        harness.runner.close(timeout_seconds=0)

    harness.runner.close(timeout_seconds=1)
    with pytest.raises(OperatorCoordinatorError, match="is closed"):
        harness.run(event("late"))
    harness.runner.close(timeout_seconds=1)
    assert harness.coordinator.calls == ["start", "close"]
