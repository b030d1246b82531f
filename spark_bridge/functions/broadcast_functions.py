"""Functions with a broadcast input, with Flink's names, and their contexts, which are created for each call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from flykka.spark_bridge.errors import KeyContextError
from flykka.spark_bridge.functions.broadcast_states import BroadcastStates, ReadOnlyBroadcastState
from flykka.spark_bridge.functions.contexts import Emit, FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import CurrentKey
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.operator_event_gateway import OperatorEventGateway
from flykka.spark_bridge.functions.process_function import Rows, TimedFunction, WatermarkFunction
from flykka.spark_bridge.functions.state import MapState
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
from flykka.spark_bridge.functions.timer_service import TimerService


class _WithBroadcastStates(FunctionContext):
    __slots__ = ("_broadcast",)

    def __init__(
        self,
        current: CurrentKey,
        timers: TimerService,
        emit: Emit,
        gateway: OperatorEventGateway,
        broadcast: BroadcastStates,
    ) -> None:
        super().__init__(current, timers, emit, gateway)
        self._broadcast = broadcast


class ReadOnlyContext(_WithBroadcastStates):
    """The context of a row of the main input."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a read-only broadcast map. Raises `StateDescriptorError` if it was not broadcast."""
        self.ensure_in_use()
        return self._broadcast.readable(state_descriptor)


class BroadcastContext(_WithBroadcastStates):
    """The context of a broadcast row."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a writable broadcast map. Raises `StateDescriptorError` if it was not broadcast."""
        self.ensure_in_use()
        return self._broadcast.writable(state_descriptor)


class KeyedReadOnlyContext(ReadOnlyContext, KeyedContext):
    """The context of a row of the main input, with its key."""

    __slots__ = ()


class ReadOnlyTimerContext(KeyedReadOnlyContext, TimerContext):
    """The context of a timer that fires."""

    __slots__ = ()


class KeyedBroadcastContext(BroadcastContext):
    """The context of a broadcast row, for a function that also has a keyed input."""

    __slots__ = ()

    def apply_to_keyed_state(self, state_descriptor: object, function: Callable[..., object]) -> NoReturn:
        """Raise `KeyContextError`: a batch reads only the state of its own keys, never the state of all keys."""
        raise KeyContextError(
            "apply_to_keyed_state is not supported: it would read and write the state of every key, but a batch only"
            " has the state of its own keys. Store the change in broadcast state, and apply it in process_element,"
            " when the key has a row, or in on_timer"
        )


class BroadcastProcessFunction(WatermarkFunction, ABC):
    """Emits rows for each row, using state that is broadcast to all subtasks.

    Broadcast rows go to all subtasks, and each subtask must change broadcast state in the same way. So the changes may
    depend only on these rows and on broadcast state.
    """

    @abstractmethod
    def process_element(self, row: Row, ctx: ReadOnlyContext) -> Rows:
        """Emit rows for a row of the main input. Broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, row: Row, ctx: BroadcastContext) -> Rows:
        """Update broadcast state for a broadcast row. Every subtask emits the rows emitted here."""


class KeyedBroadcastProcessFunction(TimedFunction, ABC):
    """Emits rows for each row and each timer, using the state of its key and state broadcast to all subtasks."""

    @abstractmethod
    def process_element(self, row: Row, ctx: KeyedReadOnlyContext) -> Rows:
        """Emit rows for a row of the main input, with the state and timers of its key. Broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, row: Row, ctx: KeyedBroadcastContext) -> Rows:
        """Update broadcast state for a broadcast row, which has no key. Every subtask emits the rows emitted here."""

    def on_timer(self, timestamp: int, ctx: ReadOnlyTimerContext) -> Rows:
        """Emit rows for a timer that fires, with the state and timers of its key. Broadcast state can be read."""
