"""Scripted actors for the kernel's tests: they perform the action that a test scripts for a word, and keep a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flykka.messages.wire.message import Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import DEFAULT_STRATEGY, SupervisorStrategy
from flykka.runtime.testing.seeded import SeededSystem

Deed = Callable[[ActorContext], object]


@message("test.say")
class Say(Message):
    """test -> actor: a word."""

    text: str = ""


class ScriptedActor(Actor):
    """Logs `<name> <event>`, and performs the scripted action for a word, or for `start`, `stop` and `restart`."""

    def __init__(self, log: list[str], script: Mapping[str, Deed], strategy: SupervisorStrategy) -> None:
        self.log = log
        self.script = script
        self.supervisor_strategy = strategy

    def pre_start(self) -> None:
        self.happens("start")

    def post_stop(self) -> None:
        self.happens("stop")

    def post_restart(self, cause: BaseException | None) -> None:
        self.happens("restart")

    def handle_message(self, message: Message) -> None:
        match message:
            case Say(text=text):
                self.happens(text)
            case Terminated(ref=ref):
                self.happens(f"sees the end of {ref.path}")
            case _:
                self.context.unhandled(message)

    def happens(self, what: str) -> None:
        self.log.append(f"{self.context.path.rpartition('/')[2]} {what}")
        deed = self.script.get(what)
        if deed is not None:
            deed(self.context)


def scripted_actor(
    log: list[str], script: Mapping[str, Deed] | None = None, strategy: SupervisorStrategy = DEFAULT_STRATEGY
) -> Props:
    return Props(ScriptedActor, log, script or {}, strategy)


def says(text: str) -> Say:
    return Say(text=text)


def fails(_context: ActorContext) -> None:
    """Fail, as the action of an actor."""
    raise RuntimeError("as scripted")


def replies(context: ActorContext) -> None:
    """Answer an ask, as the action of an actor."""
    assert context.sender is not None
    context.sender.tell(says("reply"))


def in_turn(*deeds: Deed) -> Deed:
    def perform(context: ActorContext) -> None:
        for deed in deeds:
            deed(context)

    return perform


def raises(error: type[BaseException]) -> Deed:
    def deed(_context: ActorContext) -> None:
        raise error("as scripted")

    return deed


def spawns(props: Props, *names: str) -> Deed:
    return lambda context: [context.spawn(props, name) for name in names]


def tell(system: SeededSystem, path: str, *words: str) -> None:
    for word in words:
        system.actor_selection(path).tell(says(word))
    system.run_until_idle()
