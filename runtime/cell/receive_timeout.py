"""The receive timeout: a message for an actor that has received no message for some time (Akka's ReceiveTimeout)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.wire.message import NotInfluenceReceiveTimeout
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.signals import ReceiveTimeout

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.cell.parts import Behaviour
    from flykka.runtime.time.clock import Alarm


class ReceiveTimeoutTask:
    """A receive timeout, in effect until another one is set. It fires after every such period without messages.

    Handling a message reads the clock once and sets no alarm: the alarm fires at the earliest possible time and is set
    again if a message came in between. The timeout waits in the mailbox like any message, and becomes void if another
    message is handled before it. The period starts at the end of a handler, whether a function or a coroutine.
    """

    __slots__ = ("_alarm", "_cause", "_cell", "_heard_ms", "timeout_ms")

    def __init__(self, cell: Cell, timeout_ms: int) -> None:
        self._cell = cell
        self._cause = cell.sequence
        self._heard_ms = cell.now()
        self.timeout_ms = timeout_ms
        self._alarm: Alarm | None = None
        self._arm()

    def wrap(self, behaviour: Behaviour) -> Behaviour:
        """Start the period now, and wrap `behaviour` so that each of its messages restarts the period."""
        self._heard_ms = self._cell.now()

        def noticed(message: Message) -> object:
            try:
                return behaviour(message)
            finally:
                self.on_message(message)

        return noticed

    def on_message(self, message: Message) -> None:
        if not isinstance(message, NotInfluenceReceiveTimeout):
            self._heard_ms = self._cell.system.clock.now_ms()

    def cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def accept(self) -> Message | None:
        if self._cell.receive_timeout is not self:
            return None
        now = self._cell.now()
        is_due = now >= self._heard_ms + self.timeout_ms
        if is_due:
            self._heard_ms = now
        self._arm()
        return ReceiveTimeout() if is_due else None

    def _arm(self) -> None:
        cell = self._cell
        self._alarm = cell.system.clock.schedule(self._heard_ms + self.timeout_ms, self._ring)
        if cell.end_reason is not None:
            # A kill on another thread may have cancelled the alarm before.
            self._alarm.cancel()

    def _ring(self) -> None:
        self._cell.mailbox.put(ReceiveTimeoutEnvelope(self, self._cause))


class ReceiveTimeoutEnvelope(Envelope):
    __slots__ = ("task",)

    kind = "timer"
    is_user_message = False

    def __init__(self, task: ReceiveTimeoutTask, cause: int | None) -> None:
        super().__init__(ReceiveTimeout(), None, cause)
        self.task: ReceiveTimeoutTask | None = task

    def open(self, cell: Cell) -> Message | None:
        return self.message if self.task is None else self.task.accept()

    def stashed(self, cell: Cell) -> Envelope:
        self.task = None
        return self
