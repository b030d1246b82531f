"""An actor that logs its messages, and helpers of the tests of mailboxes and stashes."""

from __future__ import annotations

from flykka.messages.wire.message import ControlMessage, Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.events import DeadLetter
from flykka.runtime.mailbox.message_queue import MailboxType
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from tests.runtime.scripted_actors import Deed, Say, says


@message("test.order")
class Order(ControlMessage):
    """test -> listener: a word that is handled before all others."""

    text: str = ""


class Listener(Actor):
    """Logs the text of every message, and performs the scripted action for it."""

    def __init__(self, log: list[str], script: dict[str, Deed]) -> None:
        self.log = log
        self.script = script

    def handle_message(self, message: Message) -> None:
        text = message.text if isinstance(message, Say | Order) else type(message).__name__
        self.log.append(text)
        self.script.get(text, lambda _: None)(self.context)


def listener(
    system: ActorSystem, mailbox: MailboxType, log: list[str], script: dict[str, Deed] | None = None
) -> ActorRef:
    return system.spawn(Props(Listener, log, script or {}).with_mailbox(mailbox), "a")


def lost_in(system: ActorSystem) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    return letters


def tell_all(ref: ActorRef, *texts: str) -> None:
    for text in texts:
        ref.tell(says(text))
