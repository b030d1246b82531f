"""An actor that stashes all messages until `open`."""

from __future__ import annotations

from flykka.messages.wire.message import ControlMessage, Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from tests.runtime.scripted_actors import Deed, Say


@message("test.alarm")
class Alarm(ControlMessage):
    """test -> shop: a control message."""


@message("test.drill")
class Drill(ControlMessage):
    """test -> shop: another control message."""


@message("test.open")
class Open(ControlMessage):
    """test -> shop: open."""


class Shop(Actor):
    """Stashes all messages until `open`, and performs the scripted action for a word."""

    def __init__(self, log: list[str], script: dict[str, Deed]) -> None:
        self.log = log
        self.script = script
        self.is_open = False

    def handle_message(self, message: Message) -> None:
        text = message.text if isinstance(message, Say) else type(message).__name__
        if text in self.script:
            self.script[text](self.context)
        elif text in ("open", "Open"):
            self.is_open = True
            self.context.unstash_all()
        elif self.is_open:
            self.log.append(text)
        else:
            self.context.stash()


def shop(log: list[str], script: dict[str, Deed] | None = None) -> Props:
    return Props(Shop, log, script or {})
