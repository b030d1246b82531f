"""The receive timeout: news for an actor that has got no message for so long (Akka's ReceiveTimeout)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.wire.markers import NotInfluenceReceiveTimeout
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.signals import ReceiveTimeout

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.behaviours import Behaviour
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.time.clock import Alarm


class ReceiveTimeoutTask:
    """One receive timeout, in effect until another one is set: it comes again after every such silence.

    A message costs one look at the clock. Nothing is armed for it: the alarm rings when the silence could be long
    enough at the earliest, and where it was not, it is set to the moment that is now the earliest. The news lie in the
    mailbox like any message, and are void where another one was handled before them. A silence begins with the end of a
    handler, be it a function or a coroutine.
    """

    __slots__ = ("_alarm", "_cause", "_cell", "_heard_ms", "timeout_ms")

    def __init__(self, cell: Cell, timeout_ms: int) -> None:
        self._cell = cell
        self._cause = cell.sequence
        self._heard_ms = cell.now()
        self.timeout_ms = timeout_ms
        self._alarm: Alarm | None = None
        self._arm()

    def around(self, behaviour: Behaviour) -> Behaviour:
        """`behaviour`, with its messages noticed. The silence begins anew, for a new instance as well."""
        self._heard_ms = self._cell.now()

        def noticed(message: Message) -> object:
            try:
                return behaviour(message)
            finally:
                self.hear(message)

        return noticed

    def hear(self, message: Message) -> None:
        """A message was handled: the silence begins anew."""
        if not isinstance(message, NotInfluenceReceiveTimeout):
            self._heard_ms = self._cell.system.clock.now_ms()

    def cancel(self) -> None:
        """Not any more; news that lie in the mailbox become void."""
        if self._alarm is not None:
            self._alarm.cancel()

    def accept(self) -> Message | None:
        """The news, if they are true now; looked at in a turn of the actor."""
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
    """The news of a silence, to be looked at again on delivery."""

    __slots__ = ("task",)

    kind = "timer"
    told = False

    def __init__(self, task: ReceiveTimeoutTask, cause: int | None) -> None:
        super().__init__(ReceiveTimeout(), None, cause)
        self.task: ReceiveTimeoutTask | None = task

    def open(self, cell: Cell) -> Message | None:
        """The news, unless a message came before them, or the timeout was set anew or off."""
        return self.message if self.task is None else self.task.accept()

    def stashed(self, cell: Cell) -> Envelope:
        """True when it was opened, so true for good."""
        self.task = None
        return self
