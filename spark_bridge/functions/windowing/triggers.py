"""The built-in triggers, with Flink's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any, Self

from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.errors import WindowError
from flykka.spark_bridge.functions.column_types import column_type
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.state_descriptors import (
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.windowing.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from flykka.spark_bridge.functions.windowing.windows import Window

CONTINUE, FIRE, FIRE_AND_PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE


class _TimersIgnored(Trigger):
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE


class NeverTrigger(_TimersIgnored):
    """Never fires; the default trigger of `GlobalWindows`."""

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        return CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None: ...


class EventTimeTrigger(_TimersIgnored):
    """Fires when the watermark reaches the end of a window, and for every later row."""

    @classmethod
    def create(cls) -> Self:
        """Return the trigger."""
        return cls()

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        last = window.max_timestamp()
        if last <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(last)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Register the end of the merged window. If the watermark has passed the end, the current row fires the
        window.
        """
        if (last := window.max_timestamp()) > ctx.get_current_watermark():
            ctx.register_event_time_timer(last)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_TimersIgnored):
    """Fires when processing time reaches the end of a window."""

    @classmethod
    def create(cls) -> Self:
        """Return the trigger."""
        return cls()

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        if (last := window.max_timestamp()) > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(last)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(_TimersIgnored):
    """Fires when a window has received `max_count` rows, and then counts from zero again."""

    def __init__(self, max_count: int) -> None:
        if not isinstance(max_count, int) or isinstance(max_count, bool) or max_count < 1:
            raise WindowError(
                f"CountTrigger.of takes the number of rows after which to fire, at least 1, not {max_count!r}"
            )
        self._max_count = max_count
        self._count = ReducingStateDescriptor("trigger_count", add, "bigint")

    @classmethod
    def of(cls, max_count: int) -> Self:
        """Return the trigger. Raises `WindowError` unless the number is a positive integer."""
        return cls(max_count)

    @property
    def states(self) -> Sequence[StateDescriptor]:
        return (self._count,)

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._max_count:
            return CONTINUE
        count.clear()
        return FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Add the counts. The current row fires the window if the sum is large enough."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class _Continuous(_TimersIgnored):
    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._next = ReducingStateDescriptor("trigger_next_fire", min, "bigint")

    @classmethod
    def of(cls, interval: Duration) -> Self:
        """Return the trigger. Raises `DurationError` if the interval is not a positive duration."""
        return cls(positive_duration_ms(interval, "interval of a continuous trigger"))

    @property
    def states(self) -> Sequence[StateDescriptor]:
        return (self._next,)

    def can_merge(self) -> bool:
        return True

    def _first_time(self, now_ms: int, ctx: TriggerContext) -> int | None:
        next_fire = ctx.get_partitioned_state(self._next)
        if next_fire.get() is not None:
            return None
        at_ms = now_ms - now_ms % self._interval_ms + self._interval_ms
        next_fire.add(at_ms)
        return at_ms

    def _next_time(self, time: int, ctx: TriggerContext) -> int | None:
        """If the window fires at `time`, set and return its next firing time."""
        next_fire = ctx.get_partitioned_state(self._next)
        if next_fire.get() != time:
            return None
        next_fire.clear()
        next_fire.add(time + self._interval_ms)
        return time + self._interval_ms

    def _merged(self, ctx: OnMergeContext) -> int | None:
        ctx.merge_partitioned_state(self._next)
        at_ms: int | None = ctx.get_partitioned_state(self._next).get()
        return at_ms

    def _cleared(self, ctx: TriggerContext) -> int | None:
        next_fire = ctx.get_partitioned_state(self._next)
        at_ms: int | None = next_fire.get()
        next_fire.clear()
        return at_ms


class ContinuousEventTimeTrigger(_Continuous):
    """Fires at the end of every event-time interval while the window has rows, and at the window's end."""

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        last = window.max_timestamp()
        if last <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(last)
        since = ctx.get_current_watermark() if timestamp is None else timestamp
        if (at_ms := self._first_time(since, ctx)) is not None:
            ctx.register_event_time_timer(at_ms)
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return FIRE
        at_ms = self._next_time(time, ctx)
        if at_ms is None:
            return CONTINUE
        ctx.register_event_time_timer(at_ms)
        return FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        if (at_ms := self._merged(ctx)) is not None:
            ctx.register_event_time_timer(at_ms)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        if (at_ms := self._cleared(ctx)) is not None:
            ctx.delete_event_time_timer(at_ms)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at the end of every processing-time interval while the window has rows."""

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        if (at_ms := self._first_time(ctx.get_current_processing_time(), ctx)) is not None:
            ctx.register_processing_time_timer(at_ms)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        at_ms = self._next_time(time, ctx)
        if at_ms is None:
            return CONTINUE
        ctx.register_processing_time_timer(at_ms)
        return FIRE

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        if (at_ms := self._merged(ctx)) is not None:
            ctx.register_processing_time_timer(at_ms)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        if (at_ms := self._cleared(ctx)) is not None:
            ctx.delete_processing_time_timer(at_ms)


class DeltaTrigger(_TimersIgnored):
    """Fires when a row differs from the row of the last firing by more than a threshold. Not usable for sessions."""

    def __init__(self, threshold: float, delta_function: Callable[[Row, Row], float], columns: str) -> None:
        if not callable(delta_function):
            raise WindowError(f"DeltaTrigger.of takes a function of two rows, not {delta_function!r}")
        self._threshold = threshold
        self._delta = delta_function
        of_row = f"struct<{columns}>"
        self._last = ValueStateDescriptor("trigger_last_element", of_row)
        self._fields = column_type(of_row, self._last.name).fields

    @classmethod
    def of(cls, threshold: float, delta_function: Callable[[Row, Row], float], columns: str) -> Self:
        """Return the trigger: `DeltaTrigger.of(5, lambda last, row: row["km"] - last["km"], "km double")`.

        The function receives two rows with the `columns`, which are columns of the stream with their types.

        Raises:
            StateDescriptorError: the columns cannot be parsed.
            WindowError: `delta_function` is not callable.
        """
        return cls(threshold, delta_function, columns)

    @property
    def states(self) -> Sequence[StateDescriptor]:
        return (self._last,)

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        state, row = ctx.get_partitioned_state(self._last), self._of_columns(element)
        last: Row | None = state.value()
        if last is not None and not self._delta(last, row) > self._threshold:
            return CONTINUE
        state.update(row)
        return CONTINUE if last is None else FIRE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()

    def _of_columns(self, element: Row) -> dict[str, Any]:
        missing = [name for name in self._fields if name not in element]
        if missing:
            raise WindowError(f"DeltaTrigger compares {', '.join(missing)}, but the rows have {', '.join(element)}")
        return {name: element[name] for name in self._fields}


class PurgingTrigger(Trigger):
    """Fires when the nested trigger fires, and then drops the contents of the window."""

    def __init__(self, nested_trigger: Trigger) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise WindowError(f"PurgingTrigger.of takes a trigger, not {nested_trigger!r}")
        self._nested = nested_trigger

    @classmethod
    def of(cls, nested_trigger: Trigger) -> Self:
        """Return the trigger. Raises `WindowError` if `nested_trigger` is not a trigger."""
        return cls(nested_trigger)

    @property
    def states(self) -> Sequence[StateDescriptor]:
        return self._nested.states

    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purging(self._nested.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purging(self._nested.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purging(self._nested.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self._nested.can_merge()

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        self._nested.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        self._nested.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result
