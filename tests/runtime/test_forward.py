"""Forwarded messages keep their sender, and failures of a forwarded ask reach the asker."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ActorDeadError, AskFailedError
from flykka.runtime.events import DeadLetter
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor


class Forwarder(Actor):
    def __init__(self, target: Ref) -> None:
        self._target = target

    def handle_message(self, message: Message) -> None:
        if message == says("die"):
            self.context.system.kill(self.context.ref)
        self.context.forward(self._target, message)


class Picky(Actor):
    def handle_message(self, message: Message) -> None:
        self.context.reject("not to my taste")


def forwarder_to(system: SeededSystem, target: Ref) -> ActorRef:
    return system.spawn(Props(Forwarder, target), "forwarder")


def test_the_recipient_sees_the_original_sender(system: SeededSystem) -> None:
    probe = TestProbe(system)
    forwarder = forwarder_to(system, probe.ref)
    system.spawn(scripted_actor([], {"go": lambda context: forwarder.tell(says("hello"))}), "origin").tell(says("go"))

    assert probe.expect_message(Say) == says("hello")
    assert probe.last_sender == system.find("/user/origin")


def test_a_forwarded_ask_is_answered_by_the_recipient(system: SeededSystem) -> None:
    recipient = system.spawn(scripted_actor([], {"q": replies}), "recipient")

    assert forwarder_to(system, recipient).ask(says("q")) == says("reply")


def test_a_forwarded_ask_fails_with_the_recipients_failure(system: SeededSystem) -> None:
    recipient = system.spawn(scripted_actor([], {"fail": fails}), "recipient")

    with pytest.raises(AskFailedError, match="as scripted"):
        forwarder_to(system, recipient).ask(says("fail"))


def test_a_forwarded_ask_fails_if_the_recipient_does_not_exist(system: SeededSystem) -> None:
    recipient = system.spawn(scripted_actor([]), "recipient")
    forwarder = forwarder_to(system, recipient)
    recipient.stop()

    with pytest.raises(ActorDeadError):
        forwarder.ask(says("q"))


def test_a_killed_forwarder_forwards_nothing(system: SeededSystem) -> None:
    probe = TestProbe(system)

    forwarder_to(system, probe.ref).tell(says("die"))

    probe.expect_no_message()


def test_the_trace_marks_a_forwarded_message(tmp_path: Path) -> None:
    with SeededSystem(3, recorder=TraceRecorder(tmp_path / "trace")) as system:
        recipient = system.spawn(scripted_actor([], {"q": replies}), "recipient")
        forwarder_to(system, recipient).ask(says("q"))

    (turn,) = [
        turn
        for turn in TraceReader.open(tmp_path / "trace")
        if turn.recipient.path == "/user/forwarder" and turn.message == says("q")
    ]
    assert turn.effects == (Send(target=recipient, message=says("q"), forwarded=True),)


def test_a_rejected_message_is_a_dead_letter_and_its_asker_is_notified(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = system.spawn(Props(Picky), "picky")

    with pytest.raises(ActorDeadError, match="not to my taste"):
        ref.ask(says("q"))

    assert [(letter.message, letter.recipient, letter.reason) for letter in letters] == [
        (says("q"), ref, "not to my taste")
    ]
