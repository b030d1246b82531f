"""Test probes: stand-ins for actors, whose messages a test checks (Akka's TestProbe)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar, overload

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.futures.promise import PromiseRef
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated

if TYPE_CHECKING:
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem

M = TypeVar("M", bound="Message")

_PATIENCE = 3.0

Received = tuple[Message, Ref | None]


@message("testing.watch_for")
class WatchFor(Message):
    """test -> probe: watch this actor."""

    ref: Ref


class _Probed(Actor):
    def __init__(self, inbox: SimpleQueue[Received]) -> None:
        self._inbox = inbox

    def handle_message(self, message: Message) -> None:
        if isinstance(message, WatchFor):
            self.context.watch(message.ref)
        else:
            self._inbox.put((message, self.context.sender))


class TestProbe:
    """A top-level actor that records its messages. In a seeded system, waiting drives the system in virtual time.

    Every `timeout` is in seconds of the system's clock. None means 3 s, or the remaining time of an enclosing `within`.
    If an expected message does not arrive, `AssertionError` is raised.
    """

    __test__ = False  # Not a test class, despite its name.

    def __init__(self, system: ActorSystem, name: str | None = None) -> None:
        self._system = system
        self._inbox: SimpleQueue[Received] = SimpleQueue()
        self._deadline_ms: int | None = None
        probe_name = f"probe-{system.next_sequence()}" if name is None else name
        self.ref: ActorRef = system.spawn(Props(_Probed, self._inbox), probe_name)
        self.last_message: Message | None = None
        self.last_sender: Ref | None = None
        """The sender of the last message; for an ask, the ref to reply to."""

    @overload
    def expect_message(
        self, expected: type[M], timeout: float | None = None, *, where: Callable[[M], bool] | None = None
    ) -> M: ...

    @overload
    def expect_message(
        self, expected: M, timeout: float | None = None, *, where: Callable[[M], bool] | None = None
    ) -> M: ...

    def expect_message(
        self, expected: type[M] | M, timeout: float | None = None, *, where: Callable[[M], bool] | None = None
    ) -> M:
        """Return the next message, which must be of the class `expected`, or equal to it, and satisfy `where`."""
        is_class = isinstance(expected, type)
        description = f"a {expected.__name__}" if isinstance(expected, type) else repr(expected)
        message = self._next_or_fail(description, timeout)
        right = isinstance(message, expected) if isinstance(expected, type) else message == expected
        assert right, f"expected {description}, got {message!r}"
        expected_message: M = message  # type: ignore[assignment]  # As the assertion says.
        assert where is None or where(expected_message), (
            f"the {'' if is_class else 'expected '}message does not fit: {message!r}"
        )
        return expected_message

    def expect_no_message(self, timeout: float = 0.1) -> None:
        """Assert that no message arrives within `timeout` seconds."""
        message = self._next(timeout)
        assert message is None, f"expected no message within {timeout} s, got {message!r}"

    def expect_terminated(self, ref: Ref, timeout: float | None = None) -> Terminated:
        """Return the next message, which must be the `Terminated` of `ref`. The probe has to `watch` it."""
        return self.expect_message(Terminated(ref=ref), timeout)

    def fish_for_message(self, where: Callable[[Message], bool], timeout: float | None = None) -> Message:
        """Return the first message that satisfies `where`. Earlier messages are dropped."""
        deadline_ms = self._now() + int(self._seconds(timeout) * 1000)
        thrown_back: list[Message] = []
        while (message := self._next(max(0, deadline_ms - self._now()) / 1000)) is not None:
            if where(message):
                return message
            thrown_back.append(message)
        raise AssertionError(f"no message matched; received were {thrown_back}")

    def receive_n(self, count: int, timeout: float | None = None) -> list[Message]:
        """Return the next `count` messages, which must arrive within `timeout` seconds."""
        with self.within(self._seconds(timeout)):
            received: list[Message] = []
            for _ in range(count):
                message = self._next(self._seconds(None))
                assert message is not None, f"expected {count} messages, got {len(received)}: {received}"
                received.append(message)
        return received

    @contextmanager
    def within(self, seconds: float, *, at_least: float = 0.0) -> Iterator[None]:
        """Assert that the block takes at most `seconds`, and at least `at_least`."""
        outer, began_ms = self._deadline_ms, self._now()
        deadline_ms = began_ms + int(seconds * 1000)
        self._deadline_ms = deadline_ms if outer is None else min(outer, deadline_ms)
        try:
            yield
        finally:
            self._deadline_ms = outer
        took_ms = self._now() - began_ms
        assert took_ms <= seconds * 1000, f"expected an end within {seconds} s, it took {took_ms / 1000} s"
        assert took_ms >= at_least * 1000, f"expected no end before {at_least} s, it took {took_ms / 1000} s"

    def drain(self) -> list[Message]:
        """Return all messages that have arrived but were not yet expected."""
        messages = []
        while not self._inbox.empty():
            messages.append(self._pop(0))
        return messages

    def send(self, target: Ref, message: Message) -> None:
        """Send `target` a message, with the probe as the sender."""
        self._put(target, message, self.ref)

    def reply(self, message: Message) -> None:
        """Send a message to the sender of the last message. This answers an ask."""
        assert self.last_sender is not None, (
            f"no sender to reply to: {self.last_message!r} was sent from outside any actor"
        )
        self._put(self.last_sender, message, self.ref)

    def forward(self, target: Ref) -> None:
        """Forward the last message to `target`, with its original sender."""
        assert self.last_message is not None, "no message has been expected yet, so none can be forwarded"
        self._put(target, self.last_message, self.last_sender)

    def watch(self, ref: Ref) -> None:
        """Watch an actor, whose `Terminated` the probe then receives."""
        self.ref.tell(WatchFor(ref=ref))

    def _put(self, target: Ref, message: Message, sender: Ref | None) -> None:
        if isinstance(target, PromiseRef):
            target.tell(message)
            return
        if self._system.serialize_messages:
            message = self._system.wire(message)
        reply_to = sender if isinstance(sender, PromiseRef) else None
        self._system.living(target).actor_inbox.put(Envelope(message, sender, None, reply_to))

    def _next_or_fail(self, description: str, timeout: float | None) -> Message:
        seconds = self._seconds(timeout)
        message = self._next(seconds)
        assert message is not None, f"expected {description} within {seconds} s, got nothing"
        return message

    def _next(self, seconds: float) -> Message | None:
        driver = self._system.driver
        if driver is not None:
            driver.drive(lambda: not self._inbox.empty(), seconds)
            seconds = 0
        try:
            return self._pop(seconds)
        except Empty:
            return None

    def _pop(self, seconds: float) -> Message:
        self.last_message, self.last_sender = self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait()
        return self.last_message

    def _now(self) -> int:
        return self._system.clock.now_ms()

    def _seconds(self, timeout: float | None) -> float:
        if timeout is not None:
            return timeout
        return _PATIENCE if self._deadline_ms is None else max(0, self._deadline_ms - self._now()) / 1000
