"""The port to the threads that run the turns of cells and blocking work, and blocking work itself."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flykka.messages.kernel.blocking_work import BlockingWork, LiveObject
from flykka.messages.wire.message import Value
from flykka.runtime.errors import serialized
from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope
from flykka.runtime.signals import PipeFailed

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.dispatch.seeded import SeededDispatcher
    from flykka.runtime.props import DispatcherName
    from flykka.runtime.time.clock import Clock

logger = logging.getLogger("flykka.runtime")


class Runnable(Protocol):
    """A cell with work, or a unit of blocking work."""

    def run(self) -> None: ...


class Dispatcher(ABC):
    """Runs cells. The thread that holds a mailbox's claim schedules the cell, at most once at a time."""

    throughput = 64
    """The number of turns that a cell may run before another cell gets the thread."""

    has_threads = False
    """True if an actor can have its own thread."""

    clock: Clock | None = None
    """The dispatcher's own clock, if it controls time."""

    driver: SeededDispatcher | None = None
    """The dispatcher itself, if a thread that waits for a future has to run the turns."""

    @property
    def loop(self) -> AbstractEventLoop:
        """The event loop on which the turns run, if they run on one."""
        raise TypeError(f"{type(self).__name__} runs no event loop")

    @abstractmethod
    def execute(self, runnable: Runnable) -> None:
        """Run this soon. May be called from any thread."""

    def run_blocking(self, work: Runnable) -> None:
        """Run work that may block for long. Called on the system's dispatcher."""
        raise TypeError(f"{type(self).__name__} has no thread for blocking work")

    def run_blocking_on(self, executor: Executor | None, work: Pipe[Any]) -> None:
        """Run blocking work on the given executor, or by default on this dispatcher."""
        (executor or self).run_blocking(work)

    def for_cell(self, name: DispatcherName) -> Dispatcher:
        """Return the dispatcher of a new cell whose Props specify `name`. Called on the system's dispatcher."""
        raise TypeError(f"{type(self).__name__} is not the dispatcher of an actor system")

    def shutdown(self) -> None:  # noqa: B027 - not all have threads.
        """Release the threads of a system that has ended, without waiting for them."""


def run_contained(runnable: Runnable) -> None:
    """Run on a worker thread, which must survive any failure."""
    try:
        runnable.run()
    except BaseException:
        # Failures of actors are handled in their turns, so this failure is a fault of the kernel.
        logger.critical("the kernel failed while it ran %s", runnable, exc_info=True)


T = TypeVar("T")

_PLAIN = (type(None), bool, int, float, str, bytes)
_DEPTH = 3


def describe_work(work: object) -> BlockingWork:
    """Describe blocking work for a recorder: a `partial` with its arguments, anything else by its name.

    Nothing is encoded here, and no live object is retained: only immutable values are recorded as arguments.
    """
    if not isinstance(work, partial):
        return BlockingWork(function=getattr(work, "__name__", type(work).__name__))
    return BlockingWork(
        function=getattr(work.func, "__name__", type(work.func).__name__),
        arguments=tuple(_part(argument) for argument in (*work.args, *work.keywords.values())),
        keywords=tuple(work.keywords),
    )


def _part(argument: object, depth: int = 0) -> Any:
    kind = type(argument)
    if kind in _PLAIN or isinstance(argument, Value):
        return argument
    if isinstance(argument, StrEnum):
        return str(argument)
    if isinstance(argument, tuple | list) and depth < _DEPTH:
        return tuple(_part(each, depth + 1) for each in argument)
    return LiveObject()


class Pipe(Generic[T]):
    """A call of `pipe_to_self`. If no message can be created from the outcome, the waiting actor fails."""

    __slots__ = ("_cause", "_on_failure", "_on_success", "cell", "work")

    def __init__(
        self,
        cell: Cell,
        work: Callable[[], T],
        on_success: Callable[[T], Message],
        on_failure: Callable[[BaseException], Message],
    ) -> None:
        self.cell = cell
        self.work = work
        self._on_success = on_success
        self._on_failure = on_failure
        self._cause = cell.sequence

    def with_work(self, work: Callable[[], Any]) -> Pipe[Any]:
        pipe = Pipe(self.cell, work, self._on_success, self._on_failure)
        pipe._cause = self._cause
        return pipe

    def run(self) -> None:
        cell = self.cell
        if cell.end_reason is not None:
            return
        try:
            message = self._outcome()
            if cell.system.serialize_messages:
                message = cell.system.wire(message)
            envelope = Envelope(message, cell.ref, self._cause)
        except BaseException as error:  # noqa: BLE001 - becomes the failure of the actor that asked for the work.
            envelope = FaultEnvelope(PipeFailed(failure=serialized(error)), error, self._cause)
        cell.mailbox.put(envelope)

    def _outcome(self) -> Message:
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001 - the outcome, for the actor to judge.
            return self._on_failure(error)
        return self._on_success(result)


class Executor(Protocol):
    """Threads for blocking work: the system's I/O pool, or others."""

    def run_blocking(self, work: Pipe[Any]) -> None: ...
