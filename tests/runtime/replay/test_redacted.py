"""A trace with redacted messages can be replayed without the redacted values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.replay.effect_comparator import DivergenceKind
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder

PASSWORD = "open sesame"


@message("redacted.login")
class Login(Message):
    """test -> Door: a visitor enters."""

    password: str


@message("redacted.opened")
class Opened(Message):
    """Door -> Guest: the door is open."""

    guest: str = "somebody"


class Guest(Actor):
    def handle_message(self, message: Message) -> None: ...


class Door(Actor):
    """Forwards the login, and checks the password in blocking work."""

    def __init__(self, guest: Ref) -> None:
        self._guest = guest

    def handle_message(self, message: Message) -> None:
        if isinstance(message, Login):
            self._guest.tell(replace(message, password=message.password.upper()))
            self.context.pipe_to_self(
                partial(_is_known, message.password), lambda _: Opened(), lambda _: Opened(guest="nobody")
            )
        else:
            self._guest.tell(message)


class RudeDoor(Door):
    """A `Door` that asks another actor."""

    def handle_message(self, message: Message) -> None:
        self._guest.tell(Opened())


def _is_known(password: str) -> bool:
    return password == PASSWORD


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "login.trace"
    recorder = TraceRecorder(path, redact={Login: lambda _: Login(password="")})
    with SeededSystem(1, recorder=recorder) as system:
        guest = system.spawn(Props(Guest), "guest")
        system.spawn(Props(Door, guest), "door").tell(Login(password=PASSWORD))
        system.run_until_idle()
    return path


def test_redacted_messages_are_compared_by_class(recorded: Path) -> None:
    TraceReplayer().replay(recorded, raise_on_divergence=True)

    other = TraceReplayer(actors={"/user/door": Props(RudeDoor, Ref("/user/guest", 1))}).replay(recorded)
    assert other.divergence is not None
    assert other.divergence.kind is DivergenceKind.MISSING_SEND


def test_redacted_messages_are_not_written_within_actor_state(tmp_path: Path) -> None:
    path = tmp_path / "plain.trace"
    recorder = TraceRecorder(path, redact={Opened: lambda opened: opened})
    with SeededSystem(1, recorder=recorder) as system:
        guest = system.spawn(Props(Guest), "guest")
        system.spawn(Props(Door, guest), "door").tell(Login(password=PASSWORD))
        system.run_until_idle()

    door = [turn for turn in TraceReader.open(path) if isinstance(turn.message, Login)]

    assert "_is_known" in repr(door[0].effects)
    assert repr(door[0].effects).count(PASSWORD) == 0
