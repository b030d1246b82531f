"""Circuit breakers: after some consecutive failures, calls are rejected for a while (Akka's CircuitBreaker).

    CLOSED     calls are executed; `max_failures` consecutive failures open the breaker
    OPEN       calls fail at once; after `reset_timeout` the breaker is half open
    HALF_OPEN  the first call is executed, the others fail at once; its outcome closes or opens the breaker

Any number of actors and threads may share a breaker. It uses its system's time, which is virtual in a seeded system. If
a run is to be replayed from one actor's messages alone, create the breaker in that actor.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from flykka.messages.wire.message import Message, message
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.errors import CircuitBreakerOpenError, CircuitBreakerTimeoutError
from flykka.runtime.futures.future import Future
from flykka.runtime.time.backoff import exponential_ms
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.time.clock import Alarm

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("flykka.runtime")


class CircuitBreakerState(StrEnum):
    """The state of a breaker."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@message("circuit_breaker.changed")
class CircuitBreakerChanged(Message):
    """CircuitBreaker -> event stream: the breaker `name` has entered `state`."""

    name: str
    state: CircuitBreakerState


class CircuitBreaker:
    """A circuit breaker for one called service.

    Args:
        system: its clock, I/O pool and event stream are used.
        name: shown in errors and events, and the seed of the random part.
        max_failures: the number of consecutive failures that open the breaker.
        call_timeout: a call that takes longer counts as failed, whatever its outcome.
        reset_timeout: the time for which the breaker stays open before it tries again.
        max_reset_timeout: the limit of that time with the `exponential_backoff_factor`; `reset_timeout` if None.
        exponential_backoff_factor: the factor of the reset timeout after each failed try.
        random_factor: up to this fraction of the reset timeout is added at random.
        is_failure: returns True if an exception counts as a failure of the service. By default every exception does.
    """

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        *,
        max_failures: int = 5,
        call_timeout: Duration = "10s",
        reset_timeout: Duration = "1 min",
        max_reset_timeout: Duration | None = None,
        exponential_backoff_factor: float = 1.0,
        random_factor: float = 0.0,
        is_failure: Callable[[BaseException], bool] | None = None,
    ) -> None:
        if max_failures < 1:
            raise ValueError(f"max_failures must be at least 1, not {max_failures}")
        if exponential_backoff_factor < 1:
            raise ValueError(f"exponential_backoff_factor {exponential_backoff_factor} is less than one")
        self.name = name
        self._system = system
        self._max_failures = max_failures
        self._call_timeout_ms = positive_duration_ms(call_timeout, "call_timeout")
        self._reset_ms = positive_duration_ms(reset_timeout, "reset_timeout")
        longest = reset_timeout if max_reset_timeout is None else max_reset_timeout
        self._max_reset_ms = positive_duration_ms(longest, "max_reset_timeout")
        self._factor = exponential_backoff_factor
        self._random_factor = random_factor
        self._is_failure = is_failure
        self._random = random.Random(f"{system.seed}:circuit-breaker:{name}")
        self._listeners: dict[CircuitBreakerState, list[Callable[[], object]]] = {
            state: [] for state in CircuitBreakerState
        }
        self._lock = threading.Lock()
        self._state = CircuitBreakerState.CLOSED
        self._era = 0
        """The number of state changes. The outcome of a call counts only in the era in which the call started."""
        self._failures = 0
        self._openings = 0
        """The number of consecutive openings without a success."""
        self._open_until_ms = 0
        self._trying = False

    @property
    def state(self) -> CircuitBreakerState:
        """The current state of the breaker."""
        return self._state

    def call(self, body: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `body` on this thread (Akka's withSyncCircuitBreaker).

        In an actor's turn `body` must not block: use `with_blocking` or `with_ask` there.

        Raises:
            CircuitBreakerOpenError: `body` was not called.
            CircuitBreakerTimeoutError: `body` has returned, but too late.
            BaseException: whatever `body` raises.
        """
        call = self._admit(lambda: None)
        try:
            result = body(*args, **kwargs)
        except BaseException as error:
            call.fail(error)
            raise
        if not call.succeed():
            raise self._timeout_error()
        return result

    def with_future(self, begin: Callable[[], Future[T]]) -> Future[T]:
        """Start a call with `begin`, which returns its future (Akka's withCircuitBreaker).

        The returned future completes like that future, or fails with `CircuitBreakerOpenError`. After the call timeout
        it fails with `CircuitBreakerTimeoutError`, and the call's future is cancelled.
        """
        guarded: Future[T] = Future(self._system.driver)
        source: Future[T] | None = None

        def expire() -> None:
            guarded.try_fail(self._timeout_error)
            if source is not None:
                source.cancel()

        def complete(ended: Future[T]) -> None:
            try:
                value = ended.get(timeout=0)
            except BaseException as error:  # noqa: BLE001 - the result of the guarded future.
                if call.fail(error):
                    guarded.try_fail(lambda: _failure_of(ended))
            else:
                if call.succeed():
                    guarded.try_set(value)

        try:
            call = self._admit(expire)
        except CircuitBreakerOpenError as refused:
            remaining_ms = refused.remaining_ms
            guarded.try_fail(lambda: CircuitBreakerOpenError(self.name, remaining_ms))
            return guarded
        try:
            source = begin()
        except BaseException as error:
            call.fail(error)
            raise
        source.add_done_callback(partial(complete, source))
        return guarded

    def with_ask(self, ref: ActorRef, message: Message, timeout: float | None = None) -> Future[Message]:
        """Ask `ref`, and return a future of the reply. `timeout` is in seconds (None: the call timeout)."""
        seconds = self._call_timeout_ms / 1000 if timeout is None else timeout
        return self.with_future(lambda: ref.ask(message, block=False, timeout=seconds))

    def with_blocking(self, work: Callable[[], T]) -> Future[T]:
        """Run blocking `work` on the system's I/O pool, and return a future of its result."""

        def begin() -> Future[T]:
            future: Future[T] = Future(self._system.driver)
            self._system.dispatcher.run_blocking(_Work(work, future))
            return future

        return self.with_future(begin)

    def on_open(self, callback: Callable[[], object]) -> None:
        """Call `callback` whenever the breaker opens, on the thread that opens it. The callback must be short."""
        self._listeners[CircuitBreakerState.OPEN].append(callback)

    def on_half_open(self, callback: Callable[[], object]) -> None:
        """Call `callback` whenever the breaker becomes half open."""
        self._listeners[CircuitBreakerState.HALF_OPEN].append(callback)

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call `callback` whenever the breaker closes."""
        self._listeners[CircuitBreakerState.CLOSED].append(callback)

    def _admit(self, on_timeout: Callable[[], object]) -> _Call:
        with self._lock:
            if self._state is CircuitBreakerState.OPEN or self._trying:
                now_ms = self._system.clock.now_ms()
                # The alarm of the next trial call may be late, but the remaining time must not be negative.
                remaining_ms = 0 if self._trying else max(1, self._open_until_ms - now_ms)
                raise CircuitBreakerOpenError(self.name, remaining_ms)
            self._trying = self._state is CircuitBreakerState.HALF_OPEN
            call = _Call(self, self._era, on_timeout)
        clock = self._system.clock
        call.alarm = clock.schedule(clock.now_ms() + self._call_timeout_ms, call.expire)
        return call

    def _timeout_error(self) -> CircuitBreakerTimeoutError:
        return CircuitBreakerTimeoutError(self.name, self._call_timeout_ms)

    def call_failed(self, era: int, error: BaseException) -> None:
        """Count a call of `era` that raised: as a failure, or as a success if `is_failure` returns False."""
        try:
            counts = self._is_failure is None or self._is_failure(error)
        except Exception:
            logger.exception(
                "circuit breaker %r: is_failure raised for %r, which counts as a failure", self.name, error
            )
            counts = True
        if counts:
            self.count_failure(era)
        else:
            self.count_success(era)

    def count_success(self, era: int) -> None:
        """Count a call of `era` that succeeded."""
        with self._lock:
            if era != self._era:
                return
            self._failures = 0
            if self._state is CircuitBreakerState.CLOSED:
                return
            self._openings = 0
            self._enter(CircuitBreakerState.CLOSED)
        self._announce(CircuitBreakerState.CLOSED)

    def count_failure(self, era: int) -> None:
        """Count a call of `era` that failed."""
        with self._lock:
            if era != self._era:
                return
            self._failures += 1
            if self._state is CircuitBreakerState.CLOSED and self._failures < self._max_failures:
                return
            wait_ms = self._next_wait_ms()
            self._open_until_ms = self._system.clock.now_ms() + wait_ms
            self._enter(CircuitBreakerState.OPEN)
            era_at_call = self._era
        self._system.clock.schedule(self._open_until_ms, lambda: self._try_again(era_at_call))
        self._announce(CircuitBreakerState.OPEN)

    def _try_again(self, era: int) -> None:
        with self._lock:
            assert era == self._era, "the alarm belongs to an earlier open state"
            self._enter(CircuitBreakerState.HALF_OPEN)
        self._announce(CircuitBreakerState.HALF_OPEN)

    def _next_wait_ms(self) -> int:
        tries, self._openings = self._openings, self._openings + 1
        limit = max(self._reset_ms, self._max_reset_ms)
        return exponential_ms(self._reset_ms, limit, self._factor, tries, self._random_factor, self._random)

    def _enter(self, state: CircuitBreakerState) -> None:
        self._state = state
        self._era += 1
        self._failures = 0
        self._trying = False

    def _announce(self, state: CircuitBreakerState) -> None:
        self._system.event_stream.publish(CircuitBreakerChanged(name=self.name, state=state))
        with outside_turn():
            for callback in self._listeners[state]:
                try:
                    callback()
                except BaseException:
                    logger.exception("circuit breaker %r: a callback for %s failed", self.name, state)


class _Call:
    """An admitted call. The first of success, failure and deadline counts, whichever threads they come from."""

    __slots__ = ("_breaker", "_ended", "_era", "_on_timeout", "alarm")

    def __init__(self, breaker: CircuitBreaker, era: int, on_timeout: Callable[[], object]) -> None:
        self._breaker = breaker
        self._era = era
        self._on_timeout = on_timeout
        self._ended = threading.Lock()
        self.alarm: Alarm | None = None

    def succeed(self) -> bool:
        if not self._end():
            return False
        self._breaker.count_success(self._era)
        return True

    def fail(self, error: BaseException) -> bool:
        if not self._end():
            return False
        self._breaker.call_failed(self._era, error)
        return True

    def expire(self) -> None:
        if self._end():
            self._breaker.count_failure(self._era)
            self._on_timeout()

    def _end(self) -> bool:
        if not self._ended.acquire(blocking=False):
            return False
        if self.alarm is not None:
            self.alarm.cancel()
        return True


class _Work(Generic[T]):
    __slots__ = ("_future", "_work")

    def __init__(self, work: Callable[[], T], future: Future[T]) -> None:
        self._work = work
        self._future = future

    def run(self) -> None:
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 - the future's result.
            # Keep the exception itself, not its text, because callers match on its class.
            failure = error
            self._future.try_fail(lambda: failure)
        else:
            self._future.try_set(value)


def _failure_of(source: Future[T]) -> BaseException:
    try:
        source.get(timeout=0)
    except BaseException as error:  # noqa: BLE001 - returned.
        return error
    raise AssertionError("the future has failed")
