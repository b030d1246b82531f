"""Refs of actors, which are Pykka refs and values at the same time."""

from __future__ import annotations

from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, NoReturn

from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.errors import AskTimeoutError, ProxyNotSupportedError, WaitInTurnError
from flykka.runtime.futures.future import Future, refuse_to_block
from flykka.runtime.futures.promise import begin_asking
from flykka.runtime.mailbox.envelope import Envelope, SignalEnvelope
from flykka.runtime.pykka_seam import PykkaRef
from flykka.runtime.recording import record_outcome
from flykka.runtime.signals import Signal, Stop
from flykka.runtime.turn import RUNNING, record_effect

if TYPE_CHECKING:
    from collections.abc import Generator

    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.futures.promise import PromiseRef
    from flykka.runtime.mailbox.mailbox import Mailbox
    from flykka.runtime.system import ActorSystem


class ActorRef(PykkaRef, Ref):
    """The path and incarnation of an actor, living or dead. Refs with the same path and incarnation are equal."""

    __slots__ = ("_system", "actor_inbox", "actor_stopped", "actor_urn", "incarnation", "path")

    actor_inbox: Mailbox  # type: ignore[assignment]  # Takes the kernel's envelopes only.

    def __init__(self, system: ActorSystem, path: str, incarnation: int, mailbox: Mailbox) -> None:
        # Pykka's initialiser reads an actor, but a ref to a dead actor has none.
        Ref.__init__(self, path, incarnation)
        self._system = system
        self.actor_urn = f"urn:flykka:{system.name}:{path}#{incarnation}"
        self.actor_inbox = mailbox
        self.actor_stopped = mailbox.owner.termination  # type: ignore[assignment]  # Answers as an Event does.

    @property
    def actor_class(self) -> type[Actor]:  # type: ignore[override]  # There is no other way to say read-only.
        """The class in the Props, for `pykka.ActorRegistry.get_by_class`; `Actor` if a function creates the actor."""
        props = getattr(self.actor_inbox.owner, "props", None)
        return Actor if props is None else props.actor_class

    @property
    def is_in_registry(self) -> bool:
        """True if Pykka's registry contains the actor while it lives."""
        return self._system.is_in_registry

    def tell(self, message: Message) -> None:
        """Send `message` without waiting. If the actor has ended, the message becomes a dead letter; this never raises
        for that.

        In a turn, the current actor becomes the sender. With `serialize_messages`, a message that cannot be encoded
        raises `EncodeError` here, in the sender.
        """
        cell = RUNNING.cell
        if cell is None:
            if self._system.serialize_messages:
                message = self._system.wire(message)
            # A message may itself be a tuple.
            self.actor_inbox.put((message, None, None) if isinstance(message, tuple) else message)
            return
        if cell.end_reason is not None:
            return  # The sender was killed during its turn, so its messages are dropped.
        if self._system.serialize_messages:
            message = self._system.wire(message)
        if cell.effects is not None:
            cell.effects.append(("send", self, message))
        self.actor_inbox.put((message, cell.ref, cell.sequence))

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Send `message` and return the reply, or with `block=False` a future of the reply.

        The asked actor replies with `context.sender.tell(...)`. `message` may also be a function that creates the
        message from the ref to reply to. `timeout` is in seconds; None is the system's default, because no ask waits
        forever.

        Raises:
            AskTimeoutError: no reply in time.
            AskFailedError: the actor raised while it handled the message.
            ActorDeadError: the actor ended before it handled the message.
            AskCycleError: the asked actor waits, directly or through others, for the actor that asks.
            BlockingInLoopError: asked with `block` by an actor that runs on an event loop.
            ValueError: the timeout is not a number of seconds.
        """
        seconds = self._system.default_ask_timeout if timeout is None else _seconds(timeout)
        promise = self._system.promise(self)
        try:
            return self._ask(promise, message, seconds, block=block)
        except BaseException:
            # A message that could not be sent must not leave a pending ask.
            promise.future.cancel()
            raise

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Stop the actor after its current turn, ahead of waiting messages. Returns True if it was alive.

        With `block` the call returns when the last hook has run, or raises `AskTimeoutError` after `timeout` seconds
        (None: the system's default for asks). Otherwise it returns a future. An actor stops itself with
        `context.stop()`.

        Raises:
            WaitInTurnError: an actor waits for its own end, or for the end of an actor above it.
            BlockingInLoopError: called with `block` by an actor that runs on an event loop.
        """
        if block:
            self.refuse_to_wait_for_own_end()
            refuse_to_block()
        seconds = self._system.default_ask_timeout if timeout is None else _seconds(timeout)
        stopped = _Stopped(self)
        if not self.is_alive():
            stopped.try_set(False)
        else:
            record_effect("stop", self)
            self.signal(Stop())
            self.actor_inbox.owner.termination.add_done_callback(lambda: stopped.set(True))
        return stopped.get(timeout=seconds) if block else stopped

    def signal(self, signal: Signal) -> None:
        """Send a kernel signal, which overtakes the messages in the mailbox."""
        cell = RUNNING.cell
        if cell is None:
            self.actor_inbox.put_signal(SignalEnvelope(signal, None, None))
        else:
            self.actor_inbox.put_signal(SignalEnvelope(signal, cell.ref, cell.sequence))

    def proxy(self) -> NoReturn:
        """Raise `ProxyNotSupportedError`, whose text shows how to send a message instead."""
        raise ProxyNotSupportedError(
            f"{self} takes messages, not attribute access: ref.tell(SomeMessage(...)), "
            "or ref.ask(SomeMessage(...), timeout=5) for a reply"
        )

    def is_alive(self) -> bool:
        """Return True if the actor has not ended yet."""
        return bool(self._system.look_up(self.path, (self,) if super().is_alive() else ()))

    def refuse_to_wait_for_own_end(self) -> None:
        """Raise `WaitInTurnError` in a turn of this actor, or of a descendant."""
        cell = link = RUNNING.cell
        while link is not None:
            if link.ref == self:
                raise WaitInTurnError(f"{cell} would wait for the end of {self} forever: use context.stop(ref)")
            link = link.parent

    def _ask(self, promise: PromiseRef, message: Any, seconds: float, *, block: bool) -> Any:
        question = message(promise) if callable(message) else message
        cell = RUNNING.cell
        if not block:
            promise.expire_in(seconds)
            self._send_ask(question, promise, cell)
            return promise.future
        if cell is not None:
            return self._ask_in_turn(cell, question, promise, seconds)
        self._send_ask(question, promise, None)
        return self._answer(promise, seconds)

    def _send_ask(self, message: Message, promise: PromiseRef, cell: Cell | None) -> None:
        if cell is not None and cell.end_reason is not None:
            return promise.refuse("the asking actor was killed")
        if self._system.serialize_messages:
            message = self._system.wire(message)
        if cell is not None and cell.effects is not None:
            cell.effects.append(("send", self, message, promise))
        self.actor_inbox.put(Envelope(message, promise, None if cell is None else cell.sequence, promise))
        return None

    def _ask_in_turn(self, cell: Cell, message: Message, promise: PromiseRef, seconds: float) -> Message:
        refuse_to_block()
        try:
            begin_asking(cell, promise.future)
            self._send_ask(message, promise, cell)
            reply = self._answer(promise, seconds)
        except BaseException as error:
            record_outcome(cell, None, error, promise)
            raise
        finally:
            cell.asking = None
        record_outcome(cell, reply, None, promise)
        return reply

    def _answer(self, promise: PromiseRef, seconds: float) -> Message:
        try:
            return Future.get(promise.future, timeout=seconds)
        except AskTimeoutError:
            # The promise is closed, so that a late reply becomes visible as a dead letter.
            if promise.future.cancel():
                raise AskTimeoutError(f"{self} did not reply within {seconds} seconds") from None
            return promise.future.get(timeout=0)

    def __str__(self) -> str:
        return f"{self.path}#{self.incarnation}"

    __repr__ = Ref.__repr__
    __eq__ = Ref.__eq__
    __hash__ = Ref.__hash__


def _seconds(timeout: float) -> float:
    if isinstance(timeout, (int, float)) and timeout <= TIMEOUT_MAX:
        return timeout
    raise ValueError(f"a timeout is a number of seconds up to {TIMEOUT_MAX:.0f}, not {timeout!r}")


class _Stopped(Future[bool]):
    """A future that completes when a stopped actor has ended. Its value is True if the actor was alive."""

    __slots__ = ("_ref",)

    def __init__(self, ref: ActorRef) -> None:
        super().__init__(ref._system.driver)
        self._ref = ref

    def _arrival(self) -> Generator[Any, None, None]:
        self._ref.refuse_to_wait_for_own_end()
        yield from super()._arrival()
