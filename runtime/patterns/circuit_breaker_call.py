"""Calls that a circuit breaker has admitted, and their futures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from flykka.runtime.futures.future import Future

if TYPE_CHECKING:
    from flykka.runtime.futures.future import Driver
    from flykka.runtime.patterns.circuit_breaker import CircuitBreaker
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.time.clock import Alarm

T = TypeVar("T")


class Call:
    """Admitted call. Of success, failure and deadline the first one counts, whichever threads they come from."""

    __slots__ = ("_alarm", "_breaker", "_ended", "_era", "_on_timeout")

    def __init__(self, breaker: CircuitBreaker, era: int, on_timeout: Callable[[], object]) -> None:
        self._breaker = breaker
        self._era = era
        self._on_timeout = on_timeout
        self._ended = threading.Lock()
        self._alarm: Alarm | None = None

    def expire_in(self, system: ActorSystem, timeout_ms: int) -> None:
        """Count the call as failed if it has not ended in `timeout_ms`."""
        self._alarm = system.clock.schedule(system.clock.now_ms() + timeout_ms, self._expire)

    def succeed(self) -> bool:
        """Count a success; False where the deadline was faster."""
        if not self._end():
            return False
        self._breaker.count_success(self._era)
        return True

    def fail(self, error: BaseException) -> bool:
        """Count a failure; False where the deadline was faster."""
        if not self._end():
            return False
        self._breaker.call_failed(self._era, error)
        return True

    def _expire(self) -> None:
        if self._end():
            self._breaker.count_failure(self._era)
            self._on_timeout()

    def _end(self) -> bool:
        if not self._ended.acquire(blocking=False):
            return False
        if self._alarm is not None:
            self._alarm.cancel()
        return True


class GuardedFuture(Future[T], Generic[T]):
    """Future that completes as that of a call does, or at the call's deadline."""

    __slots__ = ("_source",)

    def __init__(self, driver: Driver | None) -> None:
        super().__init__(driver)
        self._source: Future[T] | None = None

    def complete_with(self, source: Future[T], call: Call) -> None:
        """Complete as `source` does."""
        self._source = source
        source.add_done_callback(lambda: self._on_source_done(source, call))

    def expire(self, error: Callable[[], BaseException]) -> None:
        """Fail, and cancel the source."""
        self.try_fail(error)
        if self._source is not None:
            self._source.cancel()

    def _on_source_done(self, source: Future[T], call: Call) -> None:
        try:
            value = source.get(timeout=0)
        except BaseException as error:  # noqa: BLE001 - this future's result.
            if call.fail(error):
                self.try_fail(lambda: _failure_of(source))
            return
        if call.succeed():
            self.try_set(value)


class Work(Generic[T]):
    """Blocking work that completes a future."""

    __slots__ = ("_future", "_work")

    def __init__(self, work: Callable[[], T], future: Future[T]) -> None:
        self._work = work
        self._future = future

    def run(self) -> None:
        """Do the work, on a thread of the I/O pool."""
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 - the future's result.
            # The exception itself, not its text: callers match on its class.
            raised = error
            self._future.try_fail(lambda: raised)
        else:
            self._future.try_set(value)


def _failure_of(source: Future[T]) -> BaseException:
    try:
        source.get(timeout=0)
    except BaseException as error:  # noqa: BLE001 - returned.
        return error
    raise AssertionError("the future has failed")
