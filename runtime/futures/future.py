"""Futures: completed once, by any thread, and safe to wait for from threads and from asyncio.

They avoid the faults of Pykka's futures: a second completion is ignored, callbacks run outside of the lock, `get`
computes nothing, and a failure is a function that creates a new exception for every caller.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from functools import reduce
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pykka

from flykka.runtime.errors import (
    AskFailedError,
    AskTimeoutError,
    BlockingInLoopError,
    FutureCancelledError,
    serialized,
)
from flykka.runtime.recording import record_outcome
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.dispatch.seeded import SeededDispatcher

T = TypeVar("T")
M = TypeVar("M")

logger = logging.getLogger("flykka.runtime")

Failure = Callable[[], BaseException]

_LOOK_UP_SECONDS = 0.25
"""The longest wait of the main thread, in seconds, before it checks for signals."""


class Future(pykka.Future[T], Generic[T]):
    """A value or failure, set once. Every public method may be called from any thread."""

    __slots__ = ("_awaiting", "_callbacks", "_completed", "_driver", "_failure", "_lock", "_value")

    @property
    def promise(self) -> Ref | None:
        """The ref to which the reply is sent, if this is the future of an ask."""
        return None

    # Pykka offers iteration as another name for `await`, but a future is not an iterable.
    __iter__ = None  # type: ignore[assignment]

    def __init__(self, driver: SeededDispatcher | None = None) -> None:
        # Pykka's own initialiser prepares the get hooks, which these futures do not have.
        self._lock = threading.Lock()
        self._completed = False
        self._value: T | None = None
        self._failure: Failure | None = None
        self._callbacks: list[Callable[[], object]] | None = None
        self._driver = driver
        self._awaiting = 0

    def done(self) -> bool:
        """Return True if there is a result."""
        return self._completed

    def try_set(self, value: T | None = None) -> bool:
        """Complete with a value. Returns False if there was already a result."""
        return self._complete(value, None)

    def try_fail(self, failure: Failure) -> bool:
        """Complete with the exception that `failure` creates for each caller. Returns False if already completed."""
        return self._complete(None, failure)

    def set(self, value: T | None = None) -> None:
        """Complete with a value, like `try_set`. This is Pykka's name."""
        self.try_set(value)

    def set_exception(self, exc_info: Any = None) -> None:
        """Fail with the exception of `exc_info`, or the current one, as `AskFailedError`. This is Pykka's name."""
        error = (exc_info or sys.exc_info())[1]
        if error is None:
            raise ValueError("there is no exception to set")
        failure = serialized(error)
        self.try_fail(lambda: AskFailedError(failure))

    def cancel(self) -> bool:
        """Cancel the future. Returns False if there was already a result. A later reply is a dead letter."""
        return self.try_fail(lambda: FutureCancelledError("the future was cancelled"))

    def get(self, *, timeout: float | None = None) -> T:
        """Return the value, waiting at most `timeout` seconds.

        Raises:
            AskTimeoutError: there is no result in time.
            KernelError: the failure, as an exception created for this call.
        """
        if not self._completed and not self._wait(timeout):
            raise AskTimeoutError(f"no result within {timeout} seconds")
        if self._failure is not None:
            raise self._failure()
        return cast("T", self._value)

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` when there is a result: on the completing thread, or at once if there already is one."""
        with self._lock:
            if not self._completed:
                if self._callbacks is None:
                    self._callbacks = [callback]
                else:
                    self._callbacks.append(callback)
                return
        _call(callback)

    def map(self, func: Callable[[T], M]) -> Future[M]:
        """Return a future of `func(value)`. `func` is called once, when the value arrives."""
        return _derived([self], lambda: func(self.get()), self._driver)

    def filter(self, func: Callable[[Any], bool]) -> Future[Any]:
        """Return a future of the list of items for which `func` returns True."""
        return _derived(
            [self], lambda: [item for item in cast("Iterable[Any]", self.get()) if func(item)], self._driver
        )

    def reduce(self, func: Callable[[Any, Any], Any], *args: Any) -> Future[Any]:
        """Return a future of the items reduced with `func`, starting from an initial value if one is given."""
        return _derived([self], lambda: reduce(func, cast("Iterable[Any]", self.get()), *args), self._driver)

    def join(self, *futures: pykka.Future[Any]) -> Future[Any]:
        """Return a future of the list of all values. One deadline applies to all of them together."""
        everyone = [self, *(cast("Future[Any]", future) for future in futures)]
        return _derived(everyone, lambda: [future.get() for future in everyone], self._driver)

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Raise `TypeError`: Pykka's hooks compute inside `get`, under the lock. Use `map` and callbacks instead."""
        raise TypeError("kernel futures have no get hooks; use map, join or add_done_callback")

    def __await__(self) -> Generator[Any, None, T]:
        if not self._completed:
            with self._lock:
                self._awaiting += 1
            if RUNNING.cell is not None:
                RUNNING.cell.system.waits(RUNNING.cell, self)
            try:
                yield from self._arrival()
            except (asyncio.CancelledError, GeneratorExit) as end:
                if self._awaiting == 1:
                    self._abandon()
                if isinstance(end, asyncio.CancelledError):
                    record_outcome(RUNNING.cell, None, end, self.promise)
                raise
            finally:
                with self._lock:
                    self._awaiting -= 1
        try:
            value = Future.get(self, timeout=0)
        except BaseException as failure:
            record_outcome(RUNNING.cell, None, failure, self.promise)
            raise
        record_outcome(RUNNING.cell, value, None, self.promise)
        return value

    def __repr__(self) -> str:
        state = "pending" if not self._completed else "failed" if self._failure is not None else "done"
        return f"<{type(self).__name__} {state}>"

    def _complete(self, value: T | None, failure: Failure | None) -> bool:
        with self._lock:
            if self._completed:
                return False
            self._value = value
            self._failure = failure
            self._completed = True
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            _call(callback)
        return True

    def _arrival(self) -> Generator[Any, None, None]:
        loop = asyncio.get_running_loop()
        driver = None if self._driver is None or loop is self._driver.loop else self._driver
        while not self._completed:
            if driver is not None:
                yield from driver.drive_within(self.done)
            if not self._completed:
                yield from self._next_wake(loop, driver)

    def _next_wake(
        self, loop: asyncio.AbstractEventLoop, driver: SeededDispatcher | None
    ) -> Generator[Any, None, None]:
        waiter = loop.create_future()

        def set_result() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(set_result)
            except RuntimeError:
                # A closed loop has no task left to wake.
                if not loop.is_closed():
                    raise

        if driver is not None:
            driver.when_ready(wake)
        self.add_done_callback(wake)
        try:
            yield from waiter.__await__()
        finally:
            self._remove_callback(wake)
            if driver is not None:
                driver.forget(wake)

    def _abandon(self) -> None:
        """Called when the last waiting task is cancelled. A plain future ignores this."""

    def _remove_callback(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)

    def _wait(self, timeout: float | None) -> bool:
        refuse_to_block()
        if self._driver is not None:
            self._driver.drive(self.done, timeout)
            return self._completed
        latch = threading.Lock()
        latch.acquire()
        self.add_done_callback(latch.release)
        try:
            return _acquire(latch, timeout) or self._completed
        finally:
            self._remove_callback(latch.release)


class Termination(Future[None]):
    """A future of the end of an actor. Replaces Pykka's `Event`, with its methods."""

    __slots__ = ()

    def is_set(self) -> bool:
        return self.done()

    def wait(self, timeout: float | None = None) -> bool:
        return self.done() or self._wait(timeout)


class Sleep(Future[None]):
    """A future of the end of a coroutine's sleep, at `due_ms` by the system's clock."""

    __slots__ = ("due_ms",)

    def __init__(self, due_ms: int) -> None:
        super().__init__()
        self.due_ms = due_ms


def _derived(sources: list[Future[Any]], compute: Callable[[], M], driver: SeededDispatcher | None) -> Future[M]:
    derived: Future[M] = Future(driver)
    pending = len(sources)
    lock = threading.Lock()

    def arrived() -> None:
        nonlocal pending
        with lock:
            pending -= 1
            if pending:
                return
        try:
            derived.try_set(compute())
        except BaseException as error:  # noqa: BLE001 - it is the derived future's result.
            failure = error.failure if isinstance(error, AskFailedError) else serialized(error)
            derived.try_fail(lambda: AskFailedError(failure))

    for source in sources:
        source.add_done_callback(arrived)
    return derived


def _acquire(latch: threading.Lock, timeout: float | None) -> bool:
    """Acquire `latch` within `timeout` seconds. The main thread handles an interrupt within a quarter of a second.

    CPython checks for signals before a thread waits for a lock, and again when a signal interrupts the wait. A signal
    that arrives between the two, or that another thread receives, would not be handled until the lock is released. Only
    the main thread handles signals, so only the main thread wakes up.
    """
    if threading.current_thread() is not threading.main_thread():
        return latch.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
    deadline = None if timeout is None else monotonic() + timeout
    while True:
        wait = _LOOK_UP_SECONDS if deadline is None else max(0.0, min(_LOOK_UP_SECONDS, deadline - monotonic()))
        if latch.acquire(timeout=wait):
            return True
        if deadline is not None and monotonic() >= deadline:
            return False


def _call(callback: Callable[[], object]) -> None:
    # Like `outside_turn`, without the cost of a context manager: every ask calls this twice.
    cell, RUNNING.cell = RUNNING.cell, None
    try:
        callback()
    except BaseException:
        # The completing thread also runs other actors, so it must survive the callback.
        logger.exception("a callback of a future failed")
    finally:
        RUNNING.cell = cell


def refuse_to_block() -> None:
    cell = RUNNING.cell
    if cell is not None and cell.on_loop:
        raise BlockingInLoopError(f"{cell.ref} must not block the event loop that it shares: await the future instead")
