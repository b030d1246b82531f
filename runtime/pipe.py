"""Blocking work on behalf of an actor, whose outcome comes back as a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from flykka.runtime.envelope import Envelope, FaultEnvelope
from flykka.runtime.errors import serialized
from flykka.runtime.signals import PipeFailed

if TYPE_CHECKING:
    from flykka.messages.message import Message
    from flykka.runtime.cell import Cell

T = TypeVar("T")


class Pipe(Generic[T]):
    """One call of `pipe_to_self`. Where even the message of the outcome cannot be made, the waiting actor fails."""

    __slots__ = ("_cause", "_cell", "_on_failure", "_on_success", "_work")

    def __init__(
        self,
        cell: Cell,
        work: Callable[[], T],
        on_success: Callable[[T], Message],
        on_failure: Callable[[BaseException], Message],
    ) -> None:
        self._cell = cell
        self._work = work
        self._on_success = on_success
        self._on_failure = on_failure
        self._cause = cell.sequence

    def run(self) -> None:
        """Do the work and queue its outcome; on a thread of the I/O pool."""
        cell = self._cell
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
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - the outcome, for the actor to judge.
            return self._on_failure(error)
        return self._on_success(result)
