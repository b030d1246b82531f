"""Calls the trigger of an operator with the current window's time, timers and state.

A runner identifies a timer by key and time; a window operator also needs the window of the timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.namespaced_state import Namespace, NamespacedState, NamespacedStateDescriptor
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state import ListState
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, StateDescriptor
from flykka.spark_bridge.functions.timer_service import TimerService
from flykka.spark_bridge.functions.windowing.trigger import Trigger, TriggerResult
from flykka.spark_bridge.functions.windowing.windows import GLOBAL_WINDOW, TimeWindow, Window, namespace_of

_STATES = {TimeDomain.EVENT_TIME: "window_event_timers", TimeDomain.PROCESSING_TIME: "window_processing_timers"}


class WindowTimers:
    """The timers of one time domain: the times by window name."""

    def __init__(self, domain: TimeDomain, context: FunctionRuntimeContext, namespace: Namespace) -> None:
        self._is_event_time = domain is TimeDomain.EVENT_TIME
        self._namespace = namespace
        descriptor = ListStateDescriptor(_STATES[domain], "bigint")
        self._times: NamespacedState = context.get_namespaced_state(NamespacedStateDescriptor(descriptor, namespace))
        self._of_window = cast("ListState[int]", self._times.state)

    def register(self, time: int, timers: TimerService) -> None:
        """Register a timer of the current window, except at the maximum time, which is never reached."""
        at = min(time, WATERMARK_MAX)
        if at in self._times.namespaces().get(self._namespace.name, ()):
            return
        if self._is_event_time:
            timers.register_event_time_timer(at)
        else:
            timers.register_processing_time_timer(at)
        self._of_window.add(at)

    def delete(self, time: int, timers: TimerService) -> None:
        if not self._removed(time):
            return
        if any(time in times for times in self._times.namespaces().values()):
            return
        if self._is_event_time:
            timers.delete_event_time_timer(time)
        else:
            timers.delete_processing_time_timer(time)

    def due(self, time: int) -> list[str]:
        return [name for name, times in self._times.namespaces().items() if time in times]

    def fired(self, time: int) -> bool:
        """Remove a firing timer of the current window. Return False if there is no such timer."""
        return self._removed(time)

    def _removed(self, time: int) -> bool:
        times = self._times.namespaces().get(self._namespace.name, ())
        if time not in times:
            return False
        self._of_window.update([each for each in times if each != time])
        return True


class WindowTriggerContext:
    def __init__(self, trigger: Trigger, context: FunctionRuntimeContext) -> None:
        self._trigger = trigger
        self._namespace = Namespace()
        self.event_timers = WindowTimers(TimeDomain.EVENT_TIME, context, self._namespace)
        self.processing_timers = WindowTimers(TimeDomain.PROCESSING_TIME, context, self._namespace)
        self._states = {each.name: registered(context, each, self._namespace) for each in trigger.states}
        self._window: Window = GLOBAL_WINDOW
        self._merged: Sequence[TimeWindow] = ()

    def bind(self, timers: TimerService) -> None:
        self._timers = timers

    @property
    def window(self) -> Window:
        return self._window

    @window.setter
    def window(self, window: Window) -> None:
        self._window = window
        self._namespace.name = namespace_of(window)

    # Called by the operator

    def on_element(self, element: Row, timestamp: int | None) -> TriggerResult:
        return self._trigger.on_element(element, timestamp, self._window, self)

    def on_timer(self, time: int, domain: TimeDomain) -> TriggerResult:
        if domain is TimeDomain.EVENT_TIME:
            return self._trigger.on_event_time(time, self._window, self)
        return self._trigger.on_processing_time(time, self._window, self)

    def on_merge(self, merged: Sequence[TimeWindow]) -> None:
        self._merged = merged
        self._trigger.on_merge(self._window, self)

    def clear(self) -> None:
        self._trigger.clear(self._window, self)

    # Called by the trigger

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark()

    def get_current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def register_event_time_timer(self, time: int) -> None:
        self.event_timers.register(time, self._timers)

    def register_processing_time_timer(self, time: int) -> None:
        self.processing_timers.register(time, self._timers)

    def delete_event_time_timer(self, time: int) -> None:
        self.event_timers.delete(time, self._timers)

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing_timers.delete(time, self._timers)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor).state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        target = self._namespace.name
        sources = [name for name in map(namespace_of, self._merged) if name != target]
        self._state(state_descriptor).merge(target, sources)

    def _state(self, descriptor: StateDescriptor) -> NamespacedState:
        state = self._states.get(descriptor.name)
        if state is None:
            raise not_declared(descriptor, f"{type(self._trigger).__name__}.states", self._states)
        return state


def registered(context: FunctionRuntimeContext, descriptor: StateDescriptor, namespace: Namespace) -> NamespacedState:
    return context.get_namespaced_state(NamespacedStateDescriptor(descriptor, namespace))


def not_declared(descriptor: StateDescriptor, where: str, there: Iterable[str]) -> StateDescriptorError:
    return StateDescriptorError(
        f"state {descriptor.name!r} is not declared: add its descriptor to {where}"
        f" (declared: {', '.join(there) or 'none'})"
    )
