"""`become` and `unbecome` replace the handler of an actor's messages, until a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, says


class Chameleon(Actor):
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def handle_message(self, message: Message) -> None:
        self.hear("first", message)

    def second(self, message: Message) -> None:
        self.hear("second", message)

    def third(self, message: Message) -> None:
        self.hear("third", message)

    def passing_on(self, message: Message) -> None:
        self.log.append("passed on")
        self.handle_message(message)

    def hear(self, who: str, message: Message) -> None:
        assert isinstance(message, Say)
        word, _, rest = message.text.partition(" ")
        match word:
            case "become":
                self.context.become(getattr(self, rest))
            case "stack":
                self.context.become(getattr(self, rest), discard_old=False)
            case "unbecome":
                self.context.unbecome()
            case "fail":
                raise RuntimeError("as the test says")
            case _:
                self.log.append(f"{who} {message.text}")


@pytest.fixture
def say(system: SeededSystem) -> Callable[..., list[str]]:
    log: list[str] = []
    ref: ActorRef = system.spawn(Props(Chameleon, log), "a")

    def say(*texts: str) -> list[str]:
        for text in texts:
            ref.tell(says(text))
        system.run_until_idle()
        return log

    return say


def test_the_next_message_is_handled_by_the_new_behaviour(say: Callable[..., list[str]]) -> None:
    assert say("x", "become second", "x", "become third", "x") == ["first x", "second x", "third x"]


def test_unbecome_returns_to_handle_message_from_any_depth(say: Callable[..., list[str]]) -> None:
    assert say("become second", "become third", "unbecome", "x", "unbecome", "x") == ["first x", "first x"]


def test_unbecome_restores_the_earlier_behaviour(say: Callable[..., list[str]]) -> None:
    words = say("stack second", "stack third", "x", "unbecome", "x", "unbecome", "x")

    assert words == ["third x", "second x", "first x"]


def test_become_without_stacking_replaces_only_the_top_behaviour(say: Callable[..., list[str]]) -> None:
    assert say("stack second", "become third", "x", "unbecome", "x") == ["third x", "first x"]


def test_a_restart_resets_the_behaviour_to_handle_message(say: Callable[..., list[str]]) -> None:
    assert say("stack second", "stack third", "fail", "x", "unbecome", "x") == ["first x", "first x"]


def test_a_behaviour_may_delegate_to_handle_message(say: Callable[..., list[str]]) -> None:
    assert say("become passing_on", "x") == ["passed on", "first x"]


def test_become_refuses_an_invalid_behaviour(system: SeededSystem) -> None:
    errors: list[str] = []

    async def wait_for_message(_message: Message) -> None: ...

    class Confused(Actor):
        def pre_start(self) -> None:
            for behaviour in ("second", wait_for_message):
                with pytest.raises(TypeError) as raised:
                    self.context.become(behaviour)  # type: ignore[arg-type]
                errors.append(str(raised.value))

    system.spawn(Props(Confused), "a")
    system.run_until_idle()

    assert errors[0] == "/user/a#1 cannot become 'second': a behaviour is a function of the message"
    assert errors[1].endswith("a coroutine function: only Props.with_dispatcher('loop') can run it")


def test_an_actor_on_an_event_loop_may_become_a_coroutine_function(system: SeededSystem) -> None:
    log: list[str] = []

    class Waiting(Actor):
        async def handle_message(self, message: Message) -> None:
            self.context.become(self.other)

        async def other(self, message: Message) -> None:
            self.context.stash()
            self.context.become(self.last)
            await asyncio.sleep(1)
            self.context.unstash_all()

        async def last(self, message: Message) -> None:
            assert isinstance(message, Say)
            log.append(f"{self.context.now()} {message.text}")

    ref = system.spawn(Props(Waiting), "a")
    for text in "abc":
        ref.tell(says(text))
    system.advance(2000)

    assert log == ["1000 b", "1000 c"]


def test_any_function_that_takes_a_message_can_be_a_behaviour(system: SeededSystem) -> None:
    heard: list[Message] = []

    class Plain(Actor):
        def pre_start(self) -> None:
            self.context.become(heard.append)

    system.spawn(Props(Plain), "a").tell(says("x"))
    system.run_until_idle()

    assert heard == [says("x")]
