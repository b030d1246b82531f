"""A stand-in for any actor, whose messages the test looks at."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from flykka.runtime.actor import Actor
from flykka.runtime.props import Props

if TYPE_CHECKING:
    from flykka.messages.message import Message
    from flykka.messages.ref import Ref
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem

M = TypeVar("M", bound="Message")

Received = tuple["Message", "Ref | None"]


class _Probed(Actor):
    def __init__(self, inbox: SimpleQueue[Received]) -> None:
        self._inbox = inbox

    def handle_message(self, message: Message) -> None:
        self._inbox.put((message, self.context.sender))


class TestProbe:
    """A top-level actor that keeps what it gets. Under a seeded system, expecting drives the system in virtual time."""

    __test__ = False  # No test class, whatever pytest makes of the name.

    def __init__(self, system: ActorSystem, name: str | None = None) -> None:
        self._system = system
        self._inbox: SimpleQueue[Received] = SimpleQueue()
        probe_name = f"probe-{system.next_sequence()}" if name is None else name
        self.ref: ActorRef = system.spawn(Props(_Probed, self._inbox), probe_name)
        self.last_sender: Ref | None = None
        """Who told the message that was expected last."""

    def expect_message(self, kind: type[M], timeout: float = 3.0) -> M:
        """The next message, which must be a `kind` and come within `timeout` seconds."""
        message = self._next(timeout)
        assert message is not None, f"expected a {kind.__name__} within {timeout} s, nothing came"
        assert isinstance(message, kind), f"expected a {kind.__name__}, got {message!r}"
        return message

    def expect_no_message(self, timeout: float = 0.1) -> None:
        """Nothing comes within `timeout` seconds."""
        message = self._next(timeout)
        assert message is None, f"expected no message within {timeout} s, got {message!r}"

    def drain(self) -> list[Message]:
        """Everything that has come and was not expected yet."""
        messages = []
        while not self._inbox.empty():
            message, self.last_sender = self._inbox.get()
            messages.append(message)
        return messages

    def _next(self, timeout: float) -> Message | None:
        if self._system.driver is not None:
            self._system.driver.drive(lambda: not self._inbox.empty(), timeout)
        try:
            block = self._system.driver is None
            message, self.last_sender = self._inbox.get(block, timeout if block else None)
        except Empty:
            return None
        return message
