"""Names of Pykka's API on a kernel actor: each works as in Pykka, or raises an error that names the replacement."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pykka
import pytest

from flykka.messages.wire.errors import EncodeError
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.errors import (
    ActorDeadError,
    AskFailedError,
    AskTimeoutError,
    InvalidActorNameError,
    ProxyNotSupportedError,
)
from flykka.runtime.futures.future import Future
from flykka.runtime.props import Props
from flykka.runtime.supervision import DEFAULT_STRATEGY
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, ScriptedActor, replies, says, scripted_actor


class Parrot(ScriptedActor):
    """A separate actor class, by which Pykka's registry can be queried."""


def parrot(log: list[str]) -> Props:
    return Props(Parrot, log, {"question": replies}, DEFAULT_STRATEGY)


def by_class(actor_class: type[Actor]) -> list[pykka.ActorRef[Any]]:
    """Return the actors of a class from Pykka's registry, whose type annotations require Pykka's own actor class."""
    return pykka.ActorRegistry.get_by_class(actor_class)


def test_sending_returns_none_at_once(threaded: ActorSystem) -> None:
    log: list[str] = []
    ref = threaded.spawn(parrot(log), "a")

    ref.tell(says("hello"))
    ref.ask(says("question"), timeout=5)

    assert log == ["a start", "a hello", "a question"]


def test_ask_has_pykkas_signature(threaded: ActorSystem) -> None:
    ref = threaded.spawn(parrot([]), "a")

    assert ref.ask(says("question")) == says("reply")
    assert ref.ask(says("question"), block=True, timeout=5) == says("reply")
    future = ref.ask(says("question"), block=False)

    assert isinstance(future, pykka.Future)
    assert future.get(timeout=5) == says("reply")


def test_ask_raises_pykkas_timeout_or_actor_dead_error(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    with pytest.raises(pykka.Timeout) as late:
        ref.ask(says("question"), timeout=1)
    ref.stop()
    with pytest.raises(pykka.ActorDeadError) as dead:
        ref.ask(says("question"))

    assert isinstance(late.value, AskTimeoutError)
    assert isinstance(dead.value, ActorDeadError)


def test_futures_support_map_filter_reduce_and_join(system: SeededSystem) -> None:
    ref = system.spawn(parrot([]), "a")

    def text() -> Future[str]:
        future: Future[Say] = ref.ask(says("question"), block=False)
        return future.map(lambda reply: reply.text)

    assert text().map(str.upper).get(timeout=1) == "REPLY"
    assert text().filter(lambda letter: letter in "aeiouy").get(timeout=1) == ["e", "y"]
    assert text().reduce(lambda left, right: right + left).get(timeout=1) == "ylper"
    assert text().join(text(), text()).get(timeout=1) == ["reply"] * 3
    assert pykka.get_all([text(), text()], timeout=1) == ["reply"] * 2


def test_stop_returns_whether_the_actor_was_alive(threaded: ActorSystem) -> None:
    ref = threaded.spawn(parrot([]), "a")
    other = threaded.spawn(parrot([]), "b")

    assert ref.is_alive()
    assert ref.stop(block=True, timeout=5)
    assert not ref.is_alive()
    assert not ref.stop()
    assert other.stop(block=False).get(timeout=5)


@pytest.mark.parametrize("timeout", [None, 5])
def test_the_registry_finds_actors_by_class_by_name_and_by_urn(threaded: ActorSystem, timeout: float | None) -> None:
    one, other = (threaded.spawn(parrot([]), name) for name in "ab")
    player_ref = threaded.spawn(scripted_actor([]), "c")

    assert by_class(Parrot) == [one, other]
    assert by_class(ScriptedActor) == [one, other, player_ref]
    assert pykka.ActorRegistry.get_by_class_name("Parrot") == [one, other]
    assert pykka.ActorRegistry.get_by_urn(one.actor_urn) is one
    one.stop(timeout=timeout)

    assert by_class(Parrot) == [other]
    assert pykka.ActorRegistry.get_by_urn(one.actor_urn) is None


def test_an_actor_spawned_by_a_factory_function_is_found_as_actor(system: SeededSystem) -> None:
    ref = system.spawn(Props(lambda: Parrot([], {}, DEFAULT_STRATEGY)), "a")

    assert ref.actor_class is Actor
    assert ref in by_class(Actor)


def test_the_class_of_a_dead_ref_is_actor(system: SeededSystem) -> None:
    assert system.dead_ref("/user/nobody").actor_class is Actor


def test_a_broadcast_reaches_the_actors_of_a_class(system: SeededSystem) -> None:
    logs: list[list[str]] = [[], [], []]
    for name, log in zip("ab", logs, strict=False):
        system.spawn(parrot(log), name)
    system.spawn(scripted_actor(logs[2]), "c")

    pykka.ActorRegistry.broadcast(says("hello"), target_class="Parrot")
    system.run_until_idle()

    assert logs == [["a start", "a hello"], ["b start", "b hello"], ["c start"]]


def test_a_proxy_is_refused_with_the_alternative(system: SeededSystem) -> None:
    ref = system.spawn(parrot([]), "a")

    with pytest.raises(ProxyNotSupportedError) as refused:
        ref.proxy()

    assert str(refused.value) == (
        "/user/a#1 takes messages, not attribute access: ref.tell(SomeMessage(...)), "
        "or ref.ask(SomeMessage(...), timeout=5) for a reply"
    )


class Returns(Actor):
    """Returns its reply from the handler, as a Pykka actor does."""

    def handle_message(self, message: Message) -> None:
        return "the reply"  # type: ignore[return-value]  # What this is about.


class ReturnsLater(Actor):
    """Like `Returns`, but in a coroutine."""

    async def handle_message(self, message: Message) -> None:
        await self.context.sleep("1s")
        return "the reply"  # type: ignore[return-value]  # What this is about.


@pytest.mark.parametrize("actor", [Returns, ReturnsLater])
def test_a_handler_that_returns_a_reply_fails_with_advice(system: SeededSystem, actor: type[Actor]) -> None:
    ref = system.spawn(Props(actor), "a")

    with pytest.raises(AskFailedError) as failed:
        ref.ask(says("question"))

    assert str(failed.value) == (
        "ReplyReturnedError: handle_message of /user/a#1 returned 'the reply': "
        "to reply, send a message: self.context.sender.tell(SomeReply(...))"
    )


def test_a_coroutine_returned_without_an_event_loop_is_refused_with_advice(system: SeededSystem) -> None:
    class Hands(Actor):
        def handle_message(self, message: Message) -> Awaitable[None]:
            return self._handle()

        async def _handle(self) -> None: ...

    ref = system.spawn(Props(Hands), "a")

    with pytest.raises(AskFailedError, match=r"to await it, spawn the actor from Props\.with_dispatcher"):
        ref.ask(says("question"))
    assert system.spawn(Props(Hands).with_dispatcher("loop"), "b").is_alive()


@pytest.mark.parametrize("actor", [Returns, ReturnsLater])
def test_the_return_value_of_a_handler_is_ignored(system: SeededSystem, actor: type[Actor]) -> None:
    failed: list[Message] = []
    system.event_stream.subscribe(failed.append, Message)

    system.spawn(Props(actor), "a").tell(says("hello"))
    system.advance(2000)

    assert failed == []


def test_a_handler_that_has_replied_may_return_a_value(system: SeededSystem) -> None:
    class Both(Actor):
        def handle_message(self, message: Message) -> None:
            replies(self.context)
            return "and more"  # type: ignore[return-value]

    ref = system.spawn(Props(Both), "a")

    assert ref.ask(says("question")) == says("reply")
    assert ref.ask(says("question")) == says("reply")


def test_an_actor_that_overrides_pykkas_loop_is_refused() -> None:
    with pytest.raises(
        TypeError,
        match=(
            r"Late\.on_receive is a method of Pykka's actors: actors of this kernel implement"
            r" handle_message"
        ),
    ):

        class Late(Actor):
            def on_receive(self, message: Message) -> None: ...


class Plain(pykka.ThreadingActor):
    pass


@pytest.mark.parametrize(
    ("factory", "says_what"),
    [
        (Parrot([], {}, DEFAULT_STRATEGY), "Props take a class or function and its arguments, .*Parrot"),
        ("Parrot", "Props take a class or function and its arguments, .*'Parrot'"),
        (Plain, r"Plain does not derive from flykka\.runtime\.Actor"),
    ],
)
def test_props_of_a_factory_that_returns_no_actor_are_refused(factory: Any, says_what: str) -> None:
    with pytest.raises(TypeError, match=says_what):
        Props(factory)


@pytest.mark.parametrize("spawned", [Parrot, Parrot([], {}, DEFAULT_STRATEGY)])
def test_an_actor_is_spawned_from_props(system: SeededSystem, spawned: Props) -> None:
    with pytest.raises(TypeError, match=r"an actor is spawned from Props\(SomeActor, \.\.\.\), not from "):
        system.spawn(spawned, "a")

    assert system.find("/user/a") is None


@pytest.mark.parametrize("no_message", ["increment", {"command": "increment"}, None])
def test_a_class_that_is_not_a_message_is_refused_when_encoded(system: SeededSystem, no_message: Message) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    with pytest.raises(EncodeError, match=f"a {type(no_message).__name__} is not a message: declare its class"):
        ref.tell(no_message)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b"])
def test_an_invalid_name_is_refused_with_the_rule_for_names(system: SeededSystem, name: str) -> None:
    with pytest.raises(
        InvalidActorNameError, match=f"/user cannot contain an actor named {name!r}: a name begins with"
    ):
        system.spawn(scripted_actor([]), name)
