"""Calls a function for the rows of a batch, with its method for each input, and for due timers.

For speed, the loops do little per row: they use local variables, set two attributes, and call the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

from flykka.messages.state.handles import OperatorStateSchema
from flykka.spark_bridge.functions.broadcast_functions import (
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ReadOnlyContext,
    ReadOnlyTimerContext,
)
from flykka.spark_bridge.functions.broadcast_states import BroadcastStates
from flykka.spark_bridge.functions.checkpointed_function import initialize_state, snapshot_state
from flykka.spark_bridge.functions.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import NO_SLOT, CurrentKey, TimeDomain
from flykka.spark_bridge.functions.emission import Collector, Emitted, Row
from flykka.spark_bridge.functions.error_texts import add_note, short_repr
from flykka.spark_bridge.functions.event_values import event_from_bytes
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.functions.keyed_states import KeyedStates
from flykka.spark_bridge.functions.metric_group import MetricGroup, MetricKind, MetricSample
from flykka.spark_bridge.functions.operator_coordinator import CoordinatedFunction
from flykka.spark_bridge.functions.operator_event_gateway import OperatorEventGateway
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.process_function import (
    KeyedProcessFunction,
    ProcessFunction,
    Rows,
    TimedFunction,
    WatermarkFunction,
)
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext, TaskInfo
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor, StateDescriptor
from flykka.spark_bridge.functions.timer_service import TimerService, TimerServiceWithoutKeys

FunctionWithoutKeys = ProcessFunction | CoProcessFunction | CoMapFunction | CoFlatMapFunction | BroadcastProcessFunction
FunctionWithKeys = (
    KeyedProcessFunction | KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction | KeyedBroadcastProcessFunction
)
Call = Callable[[Row, Any], Rows]
NewContext = Callable[[], Any]


class RowCall(NamedTuple):
    name: str
    call: Call
    new_context: NewContext


def row_calls(function: FunctionWithoutKeys | FunctionWithKeys, contexts: Sequence[NewContext]) -> tuple[RowCall, ...]:
    methods = zip(_methods(function), contexts, strict=False)
    return tuple(RowCall(name, call, new_context) for (name, call), new_context in methods)


def _methods(function: FunctionWithoutKeys | FunctionWithKeys) -> tuple[tuple[str, Call], ...]:
    match function:
        case CoProcessFunction() | KeyedCoProcessFunction():
            return ("process_element1", function.process_element1), ("process_element2", function.process_element2)
        case BroadcastProcessFunction() | KeyedBroadcastProcessFunction():
            of_broadcast = function.process_broadcast_element
            return ("process_element", function.process_element), ("process_broadcast_element", of_broadcast)
        case CoMapFunction():
            return ("map1", _mapping(function.map1)), ("map2", _mapping(function.map2))
        case CoFlatMapFunction():
            return ("flat_map1", _without_context(function.flat_map1)), (
                "flat_map2",
                _without_context(function.flat_map2),
            )
        case ProcessFunction() | KeyedProcessFunction():
            return (("process_element", function.process_element),)


def _mapping(method: Callable[[Row], Row]) -> Call:
    return lambda row, _: (method(row),)


def _without_context(method: Callable[[Row], Rows]) -> Call:
    return lambda row, _: method(row)


Timestamps = Sequence[int | None]


F = TypeVar("F", bound=FunctionWithKeys | FunctionWithoutKeys)


class _FunctionRunner(Generic[F]):
    """Runs a function: `open`, any number of calls, one at a time, and `close`.

    `columns` are the columns of the emitted rows, `side_columns` the columns of side outputs by tag id; None skips the
    check. A `CheckpointedFunction` starts with the states of its subtask and its `broadcast_states`. `lists` are the
    states at its last snapshot.
    """

    _calls: tuple[RowCall, ...]

    def __init__(
        self,
        function: F,
        task: TaskInfo | None = None,
        *,
        columns: Sequence[str] | None = None,
        side_columns: Mapping[str, Sequence[str]] | None = None,
        operator_states: OperatorStates | None = None,
        broadcast_states: Sequence[MapStateDescriptor] = (),
        resources: JobResources = NO_RESOURCES,
    ) -> None:
        self._operator_states = OperatorStates() if operator_states is None else operator_states
        self._broadcast = BroadcastStates(broadcast_states, self._operator_states)
        self.lists = self._operator_states.restored
        self._function = function
        self._task = TaskInfo() if task is None else task
        self._resources = resources
        self._current = CurrentKey(resources)
        self._collector = Collector(columns, side_columns)
        self._metrics = MetricGroup()
        self.gateway = OperatorEventGateway(has_coordinator=isinstance(function, CoordinatedFunction))
        # A new context for each call, so that a context stored by the function is invalid in the next call.
        self._without_keys = (
            self._current,
            TimerServiceWithoutKeys(self._current),
            self._collector.output,
            self.gateway,
        )

    def close(self) -> None:
        self._function.close()

    def process_watermark(self, *, watermark_ms: int, processing_time_ms: int) -> Emitted:
        """Call the function for a watermark, after the timers that the watermark fires."""
        assert isinstance(self._function, WatermarkFunction), "the function is not a WatermarkFunction"
        self._begin(watermark_ms, processing_time_ms)
        context = FunctionContext(*self._without_keys)
        try:
            emitted = self._function.process_watermark(watermark_ms, context)
            if emitted is not None:
                self._collector.collect(emitted)
        finally:
            context.release()
        return self._collector.drain()

    def handle_operator_events(self, events: Sequence[bytes], *, watermark_ms: int, processing_time_ms: int) -> Emitted:
        """Call the function for events of its coordinator. Raises like `process`."""
        function: object = self._function
        assert isinstance(function, CoordinatedFunction), "the function is not a CoordinatedFunction"
        self._begin(watermark_ms, processing_time_ms)
        for each in events:
            context, event = FunctionContext(*self._without_keys), event_from_bytes(each)
            try:
                emitted = function.handle_operator_event(event, context)
                if emitted is not None:
                    self._collector.collect(emitted)
            except Exception as raised:
                add_note(raised, f"in handle_operator_event, at event {event!r}")
                raise
            finally:
                context.release()
        return self._collector.drain()

    @property
    def operator_state(self) -> tuple[OperatorStateSchema, ...]:
        return self._operator_states.schema

    def snapshot_state(self) -> None:
        self.lists = snapshot_state(self._function, self._operator_states)

    @property
    def sees_watermarks(self) -> bool:
        base = WatermarkFunction
        return isinstance(self._function, base) and type(self._function).process_watermark is not base.process_watermark

    @property
    def metrics(self) -> tuple[tuple[str, MetricKind], ...]:
        return self._metrics.names()

    def drain_metrics(self) -> tuple[MetricSample, ...]:
        return self._metrics.samples()

    def _open(self, states: KeyedStates | None) -> None:
        initialize_state(self._function, self._operator_states)
        self._function.open(FunctionRuntimeContext(self._task, states, self._metrics, self._resources))

    def _called(self, rows: Sequence[Row], inputs: Sequence[int] | None) -> Iterable[RowCall]:
        calls = self._calls
        return repeat(calls[0], len(rows)) if inputs is None else map(calls.__getitem__, inputs)

    def _begin(self, watermark_ms: int, processing_time_ms: int) -> CurrentKey:
        self._collector.drain()  # A failed call may have left rows behind.
        current = self._current
        current.timestamp = None
        current.watermark_ms = watermark_ms
        current.processing_time_ms = processing_time_ms
        return current


class ProcessFunctionRunner(_FunctionRunner[FunctionWithoutKeys]):
    def open(self) -> None:
        """Open the function. Call `close` afterwards even if this has raised."""
        contexts: tuple[NewContext, ...] = (partial(FunctionContext, *self._without_keys),) * 2
        if isinstance(self._function, BroadcastProcessFunction):
            contexts = (
                partial(ReadOnlyContext, *self._without_keys, self._broadcast),
                partial(BroadcastContext, *self._without_keys, self._broadcast),
            )
        self._calls = row_calls(self._function, contexts)
        self._open(None)

    def process(
        self,
        rows: Sequence[Row],
        timestamps: Timestamps | None,
        *,
        watermark_ms: int,
        processing_time_ms: int,
        inputs: Sequence[int] | None = None,
    ) -> Emitted:
        """Process rows. `timestamps` are their event times, None without event time, and `inputs` are the numbers of
        their inputs.

        Exceptions of the function are raised with a note that shows the row. Raises `FunctionError` if the function
        breaks a rule.
        """
        collect = self._collector.collect
        current = self._begin(watermark_ms, processing_time_ms)
        row: Row = {}
        called, times = self._calls[0], _of_each(rows, timestamps)
        context = called.new_context()
        try:
            for called, row, current.timestamp in zip(self._called(rows, inputs), rows, times, strict=True):
                _, call, new_context = called
                context = new_context()
                emitted = call(row, context)
                if emitted is not None:
                    collect(emitted)
                context.release()
        except Exception as raised:
            context.release()
            add_note(raised, f"in {called.name}, at row {short_repr(row)}")
            raise
        return self._collector.drain()


class KeyedFunctionRunner(_FunctionRunner[FunctionWithKeys]):
    """Runs a function with keys, with the states and timers of the current keys.

    A slot is the index of a key within a call: `keys` contains the key of each slot, and `StateColumns` its state. A
    broadcast row has `NO_SLOT`.
    """

    def __init__(
        self,
        function: FunctionWithKeys,
        task: TaskInfo | None = None,
        *,
        columns: Sequence[str] | None = None,
        side_columns: Mapping[str, Sequence[str]] | None = None,
        operator_states: OperatorStates | None = None,
        broadcast_states: Sequence[MapStateDescriptor] = (),
        resources: JobResources = NO_RESOURCES,
    ) -> None:
        super().__init__(
            function,
            task,
            columns=columns,
            side_columns=side_columns,
            operator_states=operator_states,
            broadcast_states=broadcast_states,
            resources=resources,
        )
        self._states = KeyedStates(self._current)
        self._timers = TimerService(self._current)
        with_keys = self._current, self._timers, self._collector.output, self.gateway
        contexts: tuple[NewContext, ...] = (partial(KeyedContext, *with_keys),) * 2
        self._timer_context: NewContext = partial(TimerContext, *with_keys)
        if isinstance(function, KeyedBroadcastProcessFunction):
            contexts = (
                partial(KeyedReadOnlyContext, *with_keys, self._broadcast),
                partial(KeyedBroadcastContext, *self._without_keys, self._broadcast),
            )
            self._timer_context = partial(ReadOnlyTimerContext, *with_keys, self._broadcast)
        self._calls = row_calls(function, contexts)

    @property
    def descriptors(self) -> tuple[StateDescriptor, ...]:
        return self._states.descriptors

    def open(self) -> None:
        """Open the function, which registers its states. Call `close` afterwards even if this has raised."""
        self._open(self._states)
        self._states.complete()

    def process(
        self,
        slots: Sequence[int],
        keys: Sequence[Any],
        rows: Sequence[Row],
        timestamps: Timestamps | None,
        columns: StateColumns,
        *,
        watermark_ms: int,
        processing_time_ms: int,
        inputs: Sequence[int] | None = None,
    ) -> Emitted:
        """Process rows in order. `slots` are the slots of their keys.

        `timestamps` are the event times of the rows, None without event time, and `inputs` the numbers of their inputs
        if there are two. Exceptions of the function are raised with a note that shows row and key. Raises
        `FunctionError` if the function breaks a rule.
        """
        collect = self._collector.collect
        row: Row = {}
        called, times = self._calls[0], _of_each(rows, timestamps)
        with self._at_keys(keys, columns, watermark_ms, processing_time_ms) as current:
            current.domain = TimeDomain.EVENT_TIME
            context = called.new_context()
            try:
                for current.slot, called, row, current.timestamp in zip(
                    slots, self._called(rows, inputs), rows, times, strict=True
                ):
                    _, call, new_context = called
                    context = new_context()
                    emitted = call(row, context)
                    if emitted is not None:
                        collect(emitted)
                    context.release()
            except Exception as raised:
                context.release()
                key = "" if current.slot is NO_SLOT else f"key {short_repr(keys[current.slot])}, "
                add_note(raised, f"in {called.name}, at {key}row {short_repr(row)}")
                raise
        return self._collector.drain()

    def fire(
        self,
        domain: TimeDomain,
        keys: Sequence[Any],
        columns: StateColumns,
        *,
        watermark_ms: int,
        processing_time_ms: int,
    ) -> Emitted:
        """Fire the timers of a domain that are due at its current time, including timers that fired timers register.

        The timers of a key fire in time order, and the keys in slot order. Raises like `process`.
        """
        is_event_time = domain is TimeDomain.EVENT_TIME
        due_to = watermark_ms if is_event_time else processing_time_ms
        of_slots = columns.event_timers if is_event_time else columns.processing_timers
        new_context, collect = self._timer_context, self._collector.collect
        on_timer = self._function.on_timer if isinstance(self._function, TimedFunction) else _no_rows
        with self._at_keys(keys, columns, watermark_ms, processing_time_ms) as current:
            current.domain = domain
            context = new_context()
            try:
                for slot in range(len(of_slots)):
                    # The list is created when the first timer of a key is registered.
                    while (due := of_slots[slot]) and due[0] <= due_to:
                        current.slot = slot
                        current.timestamp = timestamp = due.pop(0)
                        columns.changed.add(slot)
                        context = new_context()
                        emitted = on_timer(timestamp, context)
                        if emitted is not None:
                            collect(emitted)
                        context.release()
            except Exception as raised:
                context.release()
                key = short_repr(keys[current.slot])
                add_note(raised, f"in on_timer, at key {key}, {domain.value} timer {current.timestamp}")
                raise
        return self._collector.drain()

    @contextmanager
    def _at_keys(
        self, keys: Sequence[Any], columns: StateColumns, watermark_ms: int, processing_time_ms: int
    ) -> Iterator[CurrentKey]:
        current = self._begin(watermark_ms, processing_time_ms)
        current.keys = keys
        self._states.bind(columns)
        self._timers.bind(columns)
        try:
            yield current
        finally:
            current.keys = ()
            self._states.release()
            self._timers.release()


def _no_rows(timestamp: int, ctx: TimerContext) -> None:
    """Ignores a timer that was registered by a function which this function has replaced."""


def _of_each(rows: Sequence[Row], timestamps: Timestamps | None) -> Iterable[int | None]:
    return repeat(None, len(rows)) if timestamps is None else timestamps
