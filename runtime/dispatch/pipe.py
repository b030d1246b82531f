"""Blocking work for an actor, whose outcome comes back as a message."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flykka.messages.monitoring.blocking_work import BlockingWork, LiveObject
from flykka.messages.wire.message import Value
from flykka.runtime.errors import serialized
from flykka.runtime.mailbox.envelope import Envelope, FaultEnvelope
from flykka.runtime.signals import PipeFailed

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

T = TypeVar("T")

_PLAIN = (type(None), bool, int, float, str, bytes)
_DEPTH = 3


def described(work: object) -> BlockingWork:
    """Describe blocking work for a recorder: a `partial` with its arguments, anything else by its name.

    Nothing is encoded here, and no live object kept: only arguments that are immutable values stand there themselves.
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
    """Call of `pipe_to_self`. Where no message can be made of the outcome, the waiting actor fails."""

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
        """Do the work and queue its outcome; called on a thread of the I/O pool."""
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

    def run_blocking(self, work: Pipe[Any]) -> None:
        """Run `work` on one of the threads; returns at once."""
