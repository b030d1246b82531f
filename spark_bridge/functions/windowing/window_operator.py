"""Stores the rows of each key by window until the window fires, following Flink's WindowOperator.

All data is keyed state: the contents of windows and the state of triggers by window, and for merging windows the
windows of the key. So it is checkpointed and rescaled like the state of any keyed function. The contents of a session
stay under the name of its first window, so that they are not moved whenever the session grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.errors import WindowError
from flykka.spark_bridge.functions.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flykka.spark_bridge.functions.contexts import KeyedContext, Tag, TimerContext
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.functions.emission import Row, check_iterable
from flykka.spark_bridge.functions.namespaced_state import Namespace
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_descriptors import ValueStateDescriptor
from flykka.spark_bridge.functions.windowing.evictors import Evictor
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.trigger_context import WindowTriggerContext, registered
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner, WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import (
    AllRows,
    Combination,
    EvictedContents,
    WindowContents,
)
from flykka.spark_bridge.functions.windowing.window_function import (
    AnyWindowFunction,
    KeyedStateStore,
    ProcessWindowContext,
)
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window, merge_windows, namespace_of, window_of

MergeWindows = Callable[[Iterable[TimeWindow]], list[tuple[TimeWindow, list[TimeWindow]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge of windows into `result`: the previous windows, and the windows under whose names contents are stored.

    The contents of `merged_state_windows` are merged into the contents of `state_window`.
    """

    result: TimeWindow
    merged: tuple[TimeWindow, ...]
    state_window: TimeWindow
    merged_state_windows: tuple[TimeWindow, ...]


class MergingWindowSet:
    """The windows of one key, each with the window under whose name its contents are stored."""

    def __init__(self, state_windows: dict[TimeWindow, TimeWindow], merge: MergeWindows = merge_windows) -> None:
        self.state_windows = state_windows
        self._merge = merge
        self.has_changed = False

    def add_window(self, window: TimeWindow) -> tuple[TimeWindow, tuple[Merge, ...]]:
        """Add a window. Return the window to which it belongs after merging, and the merges that it caused."""
        if window in self.state_windows:
            return window, ()
        actual, merges = window, []
        for result, parts in self._merge([*self.state_windows, window]):
            if window in parts:
                actual = result
            there = [part for part in parts if part in self.state_windows]
            if there == [result]:
                continue
            state_windows = [self.state_windows.pop(part) for part in there]
            state_window = state_windows[0] if state_windows else result
            self.state_windows[result] = state_window
            self.has_changed = True
            if merged := tuple(part for part in there if part != result):
                merges.append(
                    Merge(
                        result=result,
                        merged=merged,
                        state_window=state_window,
                        merged_state_windows=tuple(state_windows[1:]),
                    )
                )
        if actual not in self.state_windows:
            self.state_windows[actual] = actual
            self.has_changed = True
        return actual, tuple(merges)

    def retire_window(self, window: TimeWindow) -> None:
        if self.state_windows.pop(window, None) is not None:
            self.has_changed = True

    def get_state_window(self, window: TimeWindow) -> TimeWindow | None:
        return self.state_windows.get(window)


LATE_RECORDS_DROPPED = "numLateRecordsDropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowing:
    """Assigns rows to windows, and defines when the windows fire and which results they emit.

    `row_type` is the DDL type of a row, which is a struct. A window is removed when time has passed its end plus
    `allowed_lateness_ms`, which only applies to event time.
    """

    assigner: WindowAssigner
    function: AnyWindowFunction
    row_type: str
    combination: Combination = field(default_factory=AllRows)
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_data_tag: Tag | None = None


class WindowOperator(KeyedProcessFunction, CheckpointedFunction):
    """Stores and fires windows by key. Raises `WindowError` if the trigger does not support merging windows."""

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing
        self._assigner = windowing.assigner
        self._trigger = self._assigner.get_default_trigger() if windowing.trigger is None else windowing.trigger
        self._function = windowing.function
        self._merges = isinstance(self._assigner, MergingWindowAssigner)
        if self._merges and not self._trigger.can_merge():
            raise WindowError(
                f"{type(self._trigger).__name__} cannot be used for {type(self._assigner).__name__}, which merge:"
                " their trigger needs can_merge() and on_merge(window, ctx)"
            )
        self._is_event_time = self._assigner.is_event_time()
        self._domain = TimeDomain.EVENT_TIME if self._is_event_time else TimeDomain.PROCESSING_TIME
        self._lateness_ms = windowing.allowed_lateness_ms if self._is_event_time else 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the operator state of the window function, if it has any. Windows have no operator state."""
        if isinstance(self._function, CheckpointedFunction):
            self._function.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if isinstance(self._function, CheckpointedFunction):
            self._function.snapshot_state(context)

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        windowing = self._windowing
        if windowing.evictor is None:
            self._contents = WindowContents(windowing.combination, windowing.row_type, runtime_context)
        else:
            self._contents = EvictedContents(
                windowing.combination, windowing.row_type, runtime_context, windowing.evictor
            )
        self._triggers = WindowTriggerContext(self._trigger, runtime_context)
        if self._merges:
            self._merging = runtime_context.get_state(ValueStateDescriptor("merging_window_set", "array<bigint>"))
        self._dropped = runtime_context.get_metrics_group().counter(LATE_RECORDS_DROPPED)
        self._function.open(runtime_context)
        self._open_states(runtime_context)

    def close(self) -> None:
        self._function.close()

    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        timestamp = ctx.timestamp()
        if timestamp is None and self._is_event_time:
            return  # A row without event time belongs to no time window, as in aggregates of columns.
        triggers = self._triggers
        triggers.bind(ctx.timer_service())
        at = WATERMARK_MIN if timestamp is None else timestamp
        merging = self._merging_windows() if self._merges else None
        is_skipped = True
        for assigned in self._assigner.assign_windows(row, at, triggers):
            window = assigned if merging is None else self._merged(assigned, merging)
            if window is None:
                continue
            triggers.window = window
            if merging is None and self._is_late(window):
                continue
            is_skipped = False
            self._contents.at(window if merging is None else merging.state_windows[window])  # type: ignore[index]
            self._contents.add(row, timestamp)
            result = triggers.on_element(row, timestamp)
            if result.is_fire():
                yield from self._fired(window, ctx)
            if result.is_purge():
                self._contents.clear()
            self._register_cleanup_timer(window)
        if merging is not None:
            self._keep(merging)
        if is_skipped and self._is_row_late(timestamp):
            self._on_late(row, ctx)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        triggers, domain = self._triggers, ctx.time_domain()
        triggers.bind(ctx.timer_service())
        timers = triggers.event_timers if domain is TimeDomain.EVENT_TIME else triggers.processing_timers
        for name in timers.due(timestamp):
            window = triggers.window = window_of(name)
            timers.fired(timestamp)
            merging = self._merging_windows() if self._merges else None
            state_window = window if merging is None else merging.get_state_window(window)  # type: ignore[arg-type]
            if state_window is None:
                continue  # The trigger has left a timer of a window that was merged or removed.
            self._contents.at(state_window)
            result = triggers.on_timer(timestamp, domain)
            if result.is_fire():
                yield from self._fired(window, ctx)
            if result.is_purge():
                self._contents.clear()
            if domain is self._domain and timestamp == self._cleanup_time(window):
                self._remove(window, merging, ctx)
                if merging is not None:
                    self._keep(merging)

    def _open_states(self, runtime_context: FunctionRuntimeContext) -> None:
        function, name = self._function, type(self._function).__name__
        self._window_namespace = Namespace()
        of_window = {
            each.name: registered(runtime_context, each, self._window_namespace).state
            for each in function.window_states
        }
        of_key = {each.name: runtime_context.get_any_state(each) for each in function.global_states}
        self._window_states = KeyedStateStore(f"{name}.window_states", of_window)
        self._global_states = KeyedStateStore(f"{name}.global_states", of_key)
        self._has_window_states = bool(of_window)

    def _fired(self, window: Window, ctx: KeyedContext) -> Iterator[Row]:
        fired = self._contents.fired(window, self._triggers)
        if fired is None:
            return
        context = self._context_of(window, ctx)
        returned = self._function._process(ctx.get_current_key(), context, fired.elements)
        if returned is not None:
            check_iterable(returned)
            yield from returned
        self._contents.processed(fired, window, self._triggers)

    def _remove(self, window: Window, merging: MergingWindowSet | None, ctx: KeyedContext) -> None:
        self._contents.clear()
        self._triggers.clear()
        self._function.clear(self._context_of(window, ctx))
        if merging is not None:
            merging.retire_window(window)  # type: ignore[arg-type]

    def _context_of(self, window: Window, ctx: KeyedContext) -> ProcessWindowContext:
        if self._has_window_states:
            self._window_namespace.name = namespace_of(window)
        return ProcessWindowContext(ctx, window, self._window_states, self._global_states)

    def _cleanup_time(self, window: Window) -> int:
        return min(window.max_timestamp() + self._lateness_ms, WATERMARK_MAX)

    def _register_cleanup_timer(self, window: Window) -> None:
        time = self._cleanup_time(window)
        if time == WATERMARK_MAX:
            return  # The window never ends.
        if self._is_event_time:
            self._triggers.register_event_time_timer(time)
        else:
            self._triggers.register_processing_time_timer(time)

    def _delete_cleanup_timer(self, window: Window) -> None:
        time = self._cleanup_time(window)
        if self._is_event_time:
            self._triggers.delete_event_time_timer(time)
        else:
            self._triggers.delete_processing_time_timer(time)

    def _is_late(self, window: Window) -> bool:
        return self._is_event_time and self._cleanup_time(window) <= self._triggers.get_current_watermark()

    def _is_row_late(self, timestamp: int | None) -> bool:
        return (
            self._is_event_time
            and timestamp is not None
            and timestamp + self._lateness_ms <= self._triggers.get_current_watermark()
        )

    def _on_late(self, row: Row, ctx: KeyedContext) -> None:
        if self._windowing.late_data_tag is None:
            self._dropped.inc()
        else:
            ctx.output(self._windowing.late_data_tag, row)

    def _merging_windows(self) -> MergingWindowSet:
        stored: Sequence[int] = self._merging.value() or ()
        bounds = iter(stored)
        state_windows = {
            TimeWindow(start, end): TimeWindow(state_start, state_end)
            for start, end, state_start, state_end in zip(bounds, bounds, bounds, bounds, strict=True)
        }
        assert isinstance(self._assigner, MergingWindowAssigner), "the windows of this assigner do not merge"
        return MergingWindowSet(state_windows, self._assigner.merge_windows)

    def _keep(self, merging: MergingWindowSet) -> None:
        if merging.has_changed:
            windows = merging.state_windows.items()
            self._merging.update(list(chain.from_iterable((*window, *of) for window, of in windows)) or None)

    def _merged(self, assigned: Any, merging: MergingWindowSet) -> TimeWindow | None:
        """Return the window to which an assigned window belongs after merging; None if that window is late."""
        before = len(merging.state_windows)
        window, merges = merging.add_window(assigned)
        for merge in merges:
            self._on_merge(merge)
        if not self._is_late(window):
            return window
        if len(merging.state_windows) > before:
            merging.retire_window(window)
        else:
            # The window existed before and its timer is due. The merged window needs that timer under its new name.
            self._triggers.window = window
            self._register_cleanup_timer(window)
        return None

    def _on_merge(self, merge: Merge) -> None:
        triggers = self._triggers
        triggers.window = merge.result
        triggers.on_merge(merge.merged)
        for merged in merge.merged:
            triggers.window = merged
            triggers.clear()
            self._delete_cleanup_timer(merged)
        if merge.merged_state_windows:
            self._contents.merge(merge.state_window, merge.merged_state_windows)
