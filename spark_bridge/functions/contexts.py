"""The contexts of a function's calls, with Flink's names. Each is created for one call and is invalid afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flykka.spark_bridge.functions.aggregate_function import AnyAggregateFunction
from flykka.spark_bridge.functions.current_key import NO_CURRENT_KEY, CurrentKey, TimeDomain
from flykka.spark_bridge.functions.job_resources import JobResources, WithJobResources
from flykka.spark_bridge.functions.operator_event_gateway import OperatorEventGateway
from flykka.spark_bridge.functions.timer_service import TimerService

Emit = Callable[["Tag", Any], None]


class Tag(Protocol):
    """Identifies a side output, like an `OutputTag`."""

    @property
    def id(self) -> str: ...


class FunctionContext(WithJobResources):
    """The context of a row or a watermark. Raises `KeyContextError` if it is used outside of its call."""

    __slots__ = ("_current", "_emit", "_gateway", "_timers")

    def __init__(self, current: CurrentKey, timers: TimerService, emit: Emit, gateway: OperatorEventGateway) -> None:
        self._current = current
        self._timers = timers
        self._emit = emit
        self._gateway = gateway

    def release(self) -> None:
        """Invalidate the context after its call has returned. Used by runners."""
        self._current = NO_CURRENT_KEY

    def timestamp(self) -> int | None:
        """Return the event time of the row in milliseconds, or None; for a timer, return the timer's time."""
        return self._current.timestamp

    def current_watermark(self) -> int:
        """Return the watermark; -2^63 before the first watermark."""
        return self._current.watermark_ms

    def timer_service(self) -> TimerService:
        """Return the service for the current time and the timers of the current key."""
        self.ensure_in_use()
        return self._timers

    def output(self, tag: Tag, row: dict[str, Any]) -> None:
        """Emit a row to a side output. Raises `FunctionOutputError` if the row does not fit that output."""
        self.ensure_in_use()
        self._emit(tag, row)

    def _job_resources(self) -> JobResources:
        return self._current.resources

    def send_event_to_coordinator(self, event: Any) -> None:
        """Send a plain value to the coordinator of the operator, which receives it when the batch has been processed.

        Raises:
            FunctionError: the function is not a `CoordinatedFunction`.
            EventValueError: the event is not a plain value.
        """
        self.ensure_in_use()
        self._gateway.send_event(event)

    def update_global_aggregate(self, name: str, value: Any, function: AnyAggregateFunction) -> Any:
        """Add a plain value to the aggregate with this name, which all subtasks of the job share, at the end of the
        batch.

        Returns the aggregate's result, a plain value, as of the start of the batch; None until this subtask has
        received a result. Raises `FunctionError` if `function` is not an aggregate function, and `EventValueError` if
        the value is not plain.
        """
        self.ensure_in_use()
        return self._gateway.update_aggregate(name, value, function)

    def ensure_in_use(self) -> None:
        """Raise `KeyContextError` if the call has returned."""
        self._current.slot  # noqa: B018 - reading it raises


class KeyedContext(FunctionContext):
    """The context of a row with a key."""

    __slots__ = ()

    def get_current_key(self) -> Any:
        """Return the key: a value, or a tuple of values if there are several key columns."""
        current = self._current
        return current.keys[current.slot]


class TimerContext(KeyedContext):
    """The context of a timer that fires."""

    __slots__ = ()

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""
        return self._current.domain
