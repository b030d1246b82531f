"""The ref of an ask: the first message sent to it is the reply."""

from __future__ import annotations

from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import (
    ActorDeadError,
    AskCycleError,
    AskFailedError,
    AskTimeoutError,
    MailboxOverflowError,
    ReplyReturnedError,
)
from flykka.runtime.futures.future import Future, refuse_to_block
from flykka.runtime.path import TEMP
from flykka.runtime.recording import record_outcome
from flykka.runtime.turn import RUNNING

if TYPE_CHECKING:
    from collections.abc import Generator

    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.dispatch.seeded import SeededDispatcher
    from flykka.runtime.futures.future import Failure
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.time.clock import Alarm


class Reply(Future["Message"]):
    """The future of an ask. An actor that gets or awaits the future waits for the asked actor, which may close an ask
    cycle.
    """

    __slots__ = ("_number", "_promises", "asked")

    def __init__(
        self, recipient: ActorRef, driver: SeededDispatcher | None, number: int, promises: dict[int, PromiseRef]
    ) -> None:
        super().__init__(driver)
        self.asked = recipient
        self._number = number
        self._promises = promises

    @property
    def is_driven(self) -> bool:
        """True if the waiting thread runs other actors' turns meanwhile, as under a seeded dispatcher."""
        return self._driver is not None

    @property
    def promise(self) -> Ref:
        return Ref(f"{TEMP}/{self._number}", self._number)

    def get(self, *, timeout: float | None = None) -> Message:
        cell = RUNNING.cell
        if cell is None:
            return super().get(timeout=timeout)
        try:
            reply = self._get_in_turn(cell, timeout)
        except BaseException as failure:
            record_outcome(cell, None, failure, self.promise)
            raise
        record_outcome(cell, reply, None, self.promise)
        return reply

    def _get_in_turn(self, cell: Cell, timeout: float | None) -> Message:
        # In a replay the outcome was recorded. Without time to wait, no actor waits for another.
        if self._completed or timeout == 0 or not cell.system.is_live:
            return super().get(timeout=timeout)
        refuse_to_block()
        try:
            begin_asking(cell, self)
            return super().get(timeout=timeout)
        finally:
            cell.asking = None

    def _complete(self, value: Message | None, failure: Failure | None) -> bool:
        self._promises.pop(self._number, None)
        return super()._complete(value, failure)

    def _abandon(self) -> None:
        # The ask is cancelled with the last task that awaited it.
        self.cancel()

    def _arrival(self) -> Generator[Any, None, None]:
        cell = RUNNING.cell
        # Only the turn's own task prevents its actor from answering others.
        if cell is None or not cell.is_main_task():
            yield from super()._arrival()
            return
        try:
            begin_asking(cell, self)
            yield from super()._arrival()
        finally:
            cell.asking = None


class PromiseRef(Ref):
    """A ref that takes the first reply. The asked actor finds the ref in `context.sender`, or in a field of the
    message.
    """

    __slots__ = ("_alarm", "_recipient", "_system", "future", "incarnation", "path")

    def __init__(self, system: ActorSystem, number: int, recipient: ActorRef, promises: dict[int, PromiseRef]) -> None:
        super().__init__(f"{TEMP}/{number}", number)
        self._system = system
        self._recipient = recipient
        self._alarm: Alarm | None = None
        self.future = Reply(recipient, system.driver, number, promises)

    def tell(self, message: Message) -> None:
        """Send the reply. After the first reply, the deadline or a cancel, the message is a dead letter."""
        cell = RUNNING.cell
        if cell is not None and cell.end_reason is not None:
            return
        if self._system.serialize_messages:
            message = self._system.wire(message)
        if cell is not None and cell.effects is not None:
            cell.effects.append(("reply", self, message))
        if not self.future.try_set(message):
            sender = None if cell is None else cell.ref
            self._system.dead_letters.publish(message, sender, self, "the ask ended before this reply arrived")

    def fail(self, failure: SerializedThrowable) -> None:
        self.future.try_fail(lambda: AskFailedError(failure))

    def refuse(self, reason: str) -> None:
        text = f"{self._recipient}: {reason}"
        self.future.try_fail(lambda: ActorDeadError(text))

    def overflow(self, reason: str) -> None:
        text = f"{self._recipient}: {reason}"
        self.future.try_fail(lambda: MailboxOverflowError(text))

    def refuse_returned(self, outcome: object) -> None:
        if self.future.done():
            return
        way = "to reply, send a message: self.context.sender.tell(SomeReply(...))"
        if iscoroutine(outcome):
            outcome.close()
            way = "to await it, spawn the actor from Props.with_dispatcher('loop')"
        raise ReplyReturnedError(f"handle_message of {self._recipient} returned {outcome!r}: {way}")

    def expire_in(self, timeout: float) -> None:
        due_ms = self._system.clock.now_ms() + int(timeout * 1000)
        self._alarm = self._system.clock.schedule(due_ms, lambda: self._expire(timeout))
        self.future.add_done_callback(self._alarm.cancel)

    def _expire(self, timeout: float) -> None:
        self.future.try_fail(lambda: AskTimeoutError(f"{self._recipient} did not reply within {timeout} seconds"))


def begin_asking(cell: Cell, reply: Reply) -> None:
    """Record that the turn of `cell` waits for `reply`, until it sets `cell.asking` to None.

    Raises:
        AskCycleError: the asked actor is already waiting for `cell`, directly or through others.
    """
    cell.asking = reply
    chain: list[Ref] = [cell.ref]
    link: Reply | None = reply
    while link is not None:
        chain.append(link.asked)
        if link.asked == cell.ref:
            raise AskCycleError(" -> ".join(map(str, chain)))
        link = _awaited_by(link.asked)


def _awaited_by(ref: ActorRef) -> Reply | None:
    owner: Any = ref.actor_inbox.owner  # The owner is a cell, or an EmptyLocalActorRef.
    reply: Reply | None = getattr(owner, "asking", None)
    # An actor that has its reply continues at once, unless this very turn runs on the stack of its wait.
    if reply is not None and reply.done() and (owner.on_loop or not reply.is_driven):
        return None
    return reply
