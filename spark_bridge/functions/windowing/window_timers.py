"""Timers of windows: a runner knows a timer by key and time, a window system by its window too."""

from __future__ import annotations

from typing import cast

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.namespaced_state import Namespace, NamespacedState, NamespacedStateDescriptor
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state import ListState
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor
from flykka.spark_bridge.functions.timer_service import TimerService

_STATES = {TimeDomain.EVENT_TIME: "window_event_timers", TimeDomain.PROCESSING_TIME: "window_processing_timers"}


class WindowTimers:
    """The timers of one time domain: for each window its times."""

    def __init__(self, domain: TimeDomain, context: FunctionRuntimeContext, namespace: Namespace) -> None:
        self._is_event_time = domain is TimeDomain.EVENT_TIME
        self._namespace = namespace
        descriptor = ListStateDescriptor(_STATES[domain], "bigint")
        self._times: NamespacedState = context.get_namespaced_state(NamespacedStateDescriptor(descriptor, namespace))
        self._of_window = cast("ListState[int]", self._times.state)

    def register(self, time: int, timers: TimerService) -> None:
        """Register a timer of the window at work; the end of time never comes."""
        at = min(time, WATERMARK_MAX)
        if at in self._times.namespaces().get(self._namespace.name, ()):
            return
        if self._is_event_time:
            timers.register_event_time_timer(at)
        else:
            timers.register_processing_time_timer(at)
        self._of_window.add(at)

    def delete(self, time: int, timers: TimerService) -> None:
        """Delete a timer of the window at work."""
        if not self._removed(time):
            return
        if any(time in times for times in self._times.namespaces().values()):
            return
        if self._is_event_time:
            timers.delete_event_time_timer(time)
        else:
            timers.delete_processing_time_timer(time)

    def due(self, time: int) -> list[str]:
        """Return the names of the windows that have a timer at a time, which fires now."""
        return [name for name, times in self._times.namespaces().items() if time in times]

    def fired(self, time: int) -> bool:
        """Remove a timer of the window at work, which fires; False where it has none."""
        return self._removed(time)

    def _removed(self, time: int) -> bool:
        times = self._times.namespaces().get(self._namespace.name, ())
        if time not in times:
            return False
        self._of_window.update([each for each in times if each != time])
        return True
