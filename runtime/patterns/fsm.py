"""Actors that are finite state machines (Akka's FSM): a handler for each state, which returns the next state.

    class Turnstile(FSM[Gate, int]):
        def __init__(self) -> None:
            self.start_with(Gate.LOCKED, 0)

        @when(Gate.LOCKED, state_timeout="5s")
        def locked(self, message: Message) -> Next[Gate, int] | None:
            if isinstance(message, Coin):
                return self.goto(Gate.OPEN).using(self.state_data + 1)
            return None  # Not for this state: `when_unhandled` decides.

Methods are overridden where Akka registers functions: `when_unhandled`, `on_transition`, `on_termination`. Akka's named
timers are those of every actor: `self.context.timers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Generic, TypeVar

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.signals import StateTimeout

S = TypeVar("S", bound=StrEnum)
D = TypeVar("D")
H = TypeVar("H", bound=Callable[..., Any])

_MARK = "_fsm_states"
_STATE_TIMEOUT = "fsm/state-timeout"  # The timer key of the state timeout, which no machine uses for its own timers.


class StopReason(StrEnum):
    """The reason why a machine ended (Akka's FSM.Reason): its own stop, normal or by failure, or an external stop."""

    NORMAL = "NORMAL"
    FAILURE = "FAILURE"
    SHUTDOWN = "SHUTDOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Generic[S, D]):
    """The next state of a machine (Akka's FSM.State), created by `goto`, `stay` and `stop`."""

    state: S
    data: D
    timeout_ms: int | None
    notifies: bool = True
    stop_reason: StopReason | None = None

    def using(self, data: D) -> Next[S, D]:
        """Return the same next state with new data."""
        return replace(self, data=data)

    def for_max(self, timeout: Duration | None) -> Next[S, D]:
        """Return the same next state with this state timeout until the next message. None removes the timeout."""
        return replace(self, timeout_ms=None if timeout is None else positive_duration_ms(timeout, "state timeout"))


def when(state: StrEnum, *, state_timeout: Duration | None = None) -> Callable[[H], H]:
    """Mark a method as the handler of `state`. It returns the next state, or None if it did not handle the message.

    If no message arrives for `state_timeout`, the machine gets a `StateTimeout`. A method may be marked for several
    states.
    """
    timeout_ms = None if state_timeout is None else positive_duration_ms(state_timeout, "state timeout")

    def mark(handler: H) -> H:
        if iscoroutinefunction(handler):
            raise TypeError(
                f"{handler.__qualname__} is a coroutine function: handlers of a machine return the next state without"
                " waiting"
            )
        setattr(handler, _MARK, {**getattr(handler, _MARK, {}), state: timeout_ms})
        return handler

    return mark


class FSM(Actor, Generic[S, D]):
    """A machine with states `S`, members of a `StrEnum`, and data `D`, preferably immutable. A restart resets the
    machine.

    A subclass calls `start_with` in its `__init__`, and `super()` if it overrides `pre_start` or `post_stop`.
    """

    _handlers: ClassVar[dict[StrEnum, str]] = {}
    _timeouts: ClassVar[dict[StrEnum, int | None]] = {}

    _current: Next[S, D] | None = None
    _next: Next[S, D] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers, cls._timeouts = {}, {}
        for base in reversed(cls.__mro__):
            for name, member in vars(base).items():
                for state, timeout_ms in getattr(member, _MARK, {}).items():
                    if cls._handlers.setdefault(state, name) != name:
                        raise TypeError(
                            f"{cls.__name__}: state {state} has two handlers, {cls._handlers[state]} and {name}"
                        )
                    cls._timeouts[state] = timeout_ms

    @property
    def state_name(self) -> S:
        """The current state; in `on_transition`, the state that is left."""
        return self._now_in.state

    @property
    def state_data(self) -> D:
        """The data of the current state."""
        return self._now_in.data

    @property
    def next_state_data(self) -> D:
        """The data of the state that is entered. Only available in `on_transition`."""
        if self._next is None:
            raise LookupError(f"{type(self).__name__}: next_state_data is available only in on_transition")
        return self._next.data

    def start_with(self, state: S, data: D) -> None:
        """Start in `state` with `data`."""
        self._current = self._enter(state, data)

    def goto(self, state: S) -> Next[S, D]:
        """Go to `state`, keeping the data. This is a transition even if the machine is already in that state."""
        return self._enter(state, self.state_data)

    def stay(self) -> Next[S, D]:
        """Stay in the current state, without a transition. The state timeout starts again."""
        return replace(self.goto(self.state_name), notifies=False)

    def stop(self, reason: StopReason = StopReason.NORMAL) -> Next[S, D]:
        """Stop the machine and its actor."""
        return replace(self.stay(), stop_reason=reason)

    def when_unhandled(self, message: Message) -> Next[S, D]:
        """Handle a message that the state's handler did not handle. By default publish it as unhandled, and stay."""
        if not isinstance(message, StateTimeout):
            self.context.unhandled(message)
        return self.stay()

    def on_transition(self, old: S, new: S) -> None:
        """React to a transition before it takes place. Called at the start with `old` equal to `new`."""

    def on_termination(self, reason: StopReason, state: S, data: D) -> None:
        """React to the end of the machine. Called once."""

    def pre_start(self) -> None:
        """Enter the initial state (Akka's `initialize`)."""
        self._move(self._now_in)

    def handle_message(self, message: Message) -> None:
        """Call the handler of the state, and enter the state that it returns."""
        self.context.timers.cancel(_STATE_TIMEOUT)
        handler = getattr(self, self._handlers[self.state_name])
        following = handler(message)
        self._move(self.when_unhandled(message) if following is None else following)

    def post_stop(self) -> None:
        """End the machine if it was stopped from outside."""
        if self._current is not None and self._current.stop_reason is None:
            self._terminate(self.stop(StopReason.SHUTDOWN))

    @property
    def _now_in(self) -> Next[S, D]:
        if self._current is None:
            raise LookupError(f"{type(self).__name__} has no initial state: call start_with in its __init__")
        return self._current

    def _enter(self, state: S, data: D) -> Next[S, D]:
        if state not in self._handlers:
            raise LookupError(f"{type(self).__name__} has no handler for the state {state}: mark one with @when")
        return Next(state=state, data=data, timeout_ms=self._timeouts[state])

    def _move(self, following: Next[S, D]) -> None:
        if following.stop_reason is not None:
            self._terminate(following)
            self.context.stop()
            return
        if following.notifies:
            self._next = following
            try:
                self.on_transition(self.state_name, following.state)
            finally:
                self._next = None
        self._current = following
        if following.timeout_ms is not None:
            self.context.timers.start_once(_STATE_TIMEOUT, following.timeout_ms, StateTimeout())

    def _terminate(self, last: Next[S, D]) -> None:
        assert last.stop_reason is not None
        self._current = last
        self.on_termination(last.stop_reason, last.state, last.data)
