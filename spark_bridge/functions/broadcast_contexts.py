"""Contexts of functions with a broadcast input, by Flink's names. Each is made for one call, as all contexts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flykka.spark_bridge.errors import KeyContextError
from flykka.spark_bridge.functions.broadcast_states import BroadcastStates, ReadOnlyBroadcastState
from flykka.spark_bridge.functions.contexts import Emit, FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.current_key import CurrentKey
from flykka.spark_bridge.functions.operator_event_gateway import OperatorEventGateway
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
    """Context of a row of the main input."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a broadcast map, to be read. Raises `StateDescriptorError` where it was not broadcast."""
        self.ensure_in_use()
        return self._broadcast.readable(state_descriptor)


class BroadcastContext(_WithBroadcastStates):
    """Context of a broadcast row."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a broadcast map, to be written. Raises `StateDescriptorError` where it was not broadcast."""
        self.ensure_in_use()
        return self._broadcast.writable(state_descriptor)


class KeyedReadOnlyContext(ReadOnlyContext, KeyedContext):
    """Context of a row of the main input, with its key."""

    __slots__ = ()


class ReadOnlyTimerContext(KeyedReadOnlyContext, TimerContext):
    """Context of a timer that fires."""

    __slots__ = ()


class KeyedBroadcastContext(BroadcastContext):
    """Context of a broadcast row beside a keyed input."""

    __slots__ = ()

    def apply_to_keyed_state(self, state_descriptor: object, function: Callable[..., object]) -> NoReturn:
        """Raises `KeyContextError`: a batch reads the state of its own keys, and never that of all."""
        raise KeyContextError(
            "apply_to_keyed_state would have to read and write the state of every key, and a batch has that of its own"
            " keys alone: note in broadcast state what is to be done, and let process_element do it when a row of the"
            " key comes, or on_timer"
        )
