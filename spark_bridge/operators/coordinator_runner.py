"""Calls the methods of a user's coordinator, and returns the events that it sends during the calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from flykka.actors.errors import UnboundOperatorError
from flykka.messages.graph.job_graph import Operator
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType, HistogramCount
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
from flykka.runtime.errors import serialized
from flykka.spark_bridge.errors import OperatorCoordinatorError
from flykka.spark_bridge.functions.event_values import event_from_bytes, event_to_bytes
from flykka.spark_bridge.functions.metric_group import MetricGroup, MetricKind, MetricSample
from flykka.spark_bridge.functions.operator_coordinator import (
    CoordinatedFunction,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    SubtaskGateway,
)
from flykka.spark_bridge.operators.process import ProcessCode

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.code_registry import CodeRegistry

_KINDS = {
    MetricKind.COUNTER: AccumulatorType.LONG_COUNTER,
    MetricKind.GAUGE: AccumulatorType.GAUGE,
    MetricKind.METER: AccumulatorType.METER,
    MetricKind.HISTOGRAM: AccumulatorType.HISTOGRAM,
}


def coordinator_runner(
    registry: CodeRegistry, operator: Operator, parallelism: int, woken: Callable[[], object]
) -> CoordinatorRunner:
    """Create the runner of an operator's coordinator. Raises `UnboundOperatorError` if its code provides none."""
    code = registry.resolve(operator.ref)
    function = code.coordinated if isinstance(code, ProcessCode) else None
    if function is None:
        raise UnboundOperatorError(f"operator {operator.ref.uid!r} has no coordinator in this application")
    return CoordinatorRunner(
        function,
        operator_id=operator.operator_id,
        uid=operator.ref.uid,
        description=registry.describe(operator.ref.uid),
        name=operator.name,
        parallelism=parallelism,
        woken=woken,
    )


class _Context(OperatorCoordinatorContext):
    def __init__(self, uid: str, name: str, parallelism: int, woken: Callable[[], object]) -> None:
        self._uid = uid
        self._name = name
        self._parallelism = parallelism
        self._woken = woken
        self.metrics = MetricGroup()
        self.actions: deque[Callable[[], object]] = deque()
        self.failure: BaseException | None = None

    @property
    def uid(self) -> str:
        return self._uid

    @property
    def operator_name(self) -> str:
        return self._name

    @property
    def current_parallelism(self) -> int:
        return self._parallelism

    def get_metrics_group(self) -> MetricGroup:
        return self.metrics

    def fail_job(self, cause: BaseException) -> None:
        self.failure = cause

    def run_in_coordinator_thread(self, action: Callable[[], object]) -> None:
        self.actions.append(action)
        self._woken()


class CoordinatorRunner:
    """Implements `OperatorCoordinatorCalls`, and closes the coordinator at the end."""

    def __init__(
        self,
        function: CoordinatedFunction,
        *,
        operator_id: OperatorId,
        uid: str,
        description: str,
        name: str,
        parallelism: int,
        woken: Callable[[], object],
    ) -> None:
        self._function = function
        self._operator_id = operator_id
        self._description = description
        self._context = _Context(uid, name, parallelism, woken)
        # Held during calls, so that closing the coordinator waits for them.
        self._lock = Lock()
        self._coordinator: OperatorCoordinator | None = None
        self._is_closed = False
        self._thread: int | None = None
        self._sent: list[EventForSubtask] = []
        self._totals: dict[str, AccumulatorSnapshot] = {}

    def run(self, calls: Sequence[CoordinatorCall]) -> CoordinatorAnswer:
        with self._lock:
            if self._is_closed:
                raise OperatorCoordinatorError(f"the coordinator of operator {self._description} is closed")
            self._sent, self._context.failure, self._thread = [], None, get_ident()
            state: bytes | None = None
            call: CoordinatorCall | None = None
            try:
                if self._coordinator is None:
                    self._coordinator = self._create_coordinator()
                for call in calls:
                    state = self._call(self._coordinator, call)
                metrics = self._measured()
            except Exception as raised:
                raise self._failed("get_coordinator" if call is None else _METHODS[type(call)], raised) from raised
            finally:
                self._thread = None
            return CoordinatorAnswer(
                events=tuple(self._sent), state=state, failure=self._requested_failure(), metrics=metrics
            )

    def close(self, timeout_seconds: float) -> None:
        """Close the coordinator after running calls. Raises `OperatorCoordinatorError` on failure or timeout."""
        if not self._lock.acquire(timeout=timeout_seconds):
            raise OperatorCoordinatorError(
                f"the coordinator of operator {self._description} has not returned from a call within"
                f" {timeout_seconds:g} s: it is not closed"
            )
        try:
            coordinator, self._coordinator, self._is_closed = self._coordinator, None, True
        finally:
            self._lock.release()
        if coordinator is not None:
            try:
                coordinator.close()
            except Exception as raised:
                raise self._failed("close", raised) from raised

    def _create_coordinator(self) -> OperatorCoordinator:
        coordinator = self._function.get_coordinator(self._context)
        if not isinstance(coordinator, OperatorCoordinator):
            raise TypeError(f"get_coordinator must return an OperatorCoordinator, not {coordinator!r}")
        return coordinator

    def _call(self, coordinator: OperatorCoordinator, call: CoordinatorCall) -> bytes | None:
        match call:
            case StartCoordinator():
                coordinator.start()
            case HandleEventFromOperator(subtask=subtask, attempt_number=number, event=event):
                coordinator.handle_event_from_operator(subtask, number, event_from_bytes(event))
            case CheckpointOperatorCoordinator(checkpoint_id=checkpoint_id):
                state = coordinator.checkpoint_coordinator(checkpoint_id)
                return event_to_bytes(state, "the state of a coordinator")
            case ResetToCheckpoint(checkpoint_id=checkpoint_id, state=state):
                # Drop the actions that the abandoned execution has requested.
                self._context.actions.clear()
                coordinator.reset_to_checkpoint(checkpoint_id, event_from_bytes(state) if state else None)
            case SubtaskReady(subtask=subtask, attempt_number=number):
                coordinator.subtask_ready(subtask, SubtaskGateway(subtask, number, self._send))
            case SubtaskFailed(subtask=subtask, attempt_number=number, reason=reason):
                coordinator.subtask_failed(subtask, number, _text(reason))
            case ResetSubtask(subtask=subtask, checkpoint_id=checkpoint_id):
                coordinator.subtask_reset(subtask, checkpoint_id)
            case CheckpointComplete(checkpoint_id=checkpoint_id):
                coordinator.notify_checkpoint_complete(checkpoint_id)
            case CheckpointWasAborted(checkpoint_id=checkpoint_id):
                coordinator.notify_checkpoint_aborted(checkpoint_id)
            case RunActions():
                for _ in range(len(self._context.actions)):
                    self._context.actions.popleft()()
        return None

    def _send(self, subtask: int, attempt_number: int, event: Any) -> None:
        if self._thread != get_ident():
            raise OperatorCoordinatorError(
                f"the coordinator of operator {self._description} has sent an event outside of a call: send events in"
                " an action for context.run_in_coordinator_thread(...)"
            )
        data = event_to_bytes(event, "an event")
        self._sent.append(EventForSubtask(subtask=subtask, attempt_number=attempt_number, event=data))

    def _requested_failure(self) -> SerializedThrowable | None:
        failure = self._context.failure
        return None if failure is None else serialized(self._failed("fail_job", failure))

    def _failed(self, method: str, raised: BaseException) -> OperatorCoordinatorError:
        error = OperatorCoordinatorError(
            f"the coordinator of operator {self._description} failed in {method}: {type(raised).__name__}: {raised}"
        )
        error.__cause__ = raised
        return error

    def _measured(self) -> tuple[AccumulatorSnapshot, ...]:
        for sample in self._context.metrics.samples():
            self._totals[sample.name] = _added(self._totals.get(sample.name), sample)
        name = self._context.operator_name
        return tuple(
            replace(total, name=f"{name}.{total.name}", operator_id=self._operator_id, operator_name=name)
            for total in self._totals.values()
        )


_METHODS: dict[type[Any], str] = {
    StartCoordinator: "start",
    HandleEventFromOperator: "handle_event_from_operator",
    CheckpointOperatorCoordinator: "checkpoint_coordinator",
    ResetToCheckpoint: "reset_to_checkpoint",
    SubtaskReady: "subtask_ready",
    SubtaskFailed: "subtask_failed",
    ResetSubtask: "subtask_reset",
    CheckpointComplete: "notify_checkpoint_complete",
    CheckpointWasAborted: "notify_checkpoint_aborted",
    RunActions: "an action of run_in_coordinator_thread",
}


def _text(reason: SerializedThrowable | None) -> str | None:
    return None if reason is None else f"{reason.type_name}: {reason.message}"


def _added(total: AccumulatorSnapshot | None, sample: MetricSample) -> AccumulatorSnapshot:
    counts = {each.number: each.count for each in (total.counts if total is not None else ())}
    for number, count in sample.counts.items():
        counts[number] = counts.get(number, 0) + count
    return AccumulatorSnapshot(
        name=sample.name,
        type=_KINDS[sample.kind],
        count=sample.count + (total.count if total is not None else 0),
        total=float(sample.value),
        counts=tuple(HistogramCount(number=number, count=count) for number, count in sorted(counts.items())),
    )
