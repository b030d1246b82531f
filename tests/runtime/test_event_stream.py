"""The event stream and dead letters."""

from __future__ import annotations

import logging

import pytest

from flykka.messages.wire.errors import EncodeError
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.events import ActorFailed, ActorTerminated, DeadLetter, UnhandledMessage
from flykka.runtime.signals import Terminated
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, says, scripted_actor


def test_an_actor_can_subscribe(system: SeededSystem) -> None:
    probe = TestProbe(system)
    system.event_stream.subscribe(probe.ref, DeadLetter)

    system.dead_ref("/user/nobody").tell(says("hello"))

    letter = probe.expect_message(DeadLetter)
    assert letter.message == says("hello")
    assert letter.recipient == Ref("/user/nobody", 0)


def test_an_unsubscribed_actor_receives_no_events(system: SeededSystem) -> None:
    heard: list[object] = []
    system.event_stream.subscribe(heard.append, Say)
    system.event_stream.publish(says("one"))

    system.event_stream.unsubscribe(heard.append)
    system.event_stream.publish(says("two"))

    assert heard == [says("one")]


def test_a_subscriber_gets_each_event_once(system: SeededSystem) -> None:
    heard: list[object] = []
    system.event_stream.subscribe(heard.append, Say)

    system.event_stream.subscribe(heard.append, Say, UnhandledMessage, Message)
    system.event_stream.publish(says("one"))

    assert heard == [says("one")]


def test_unsubscribing_from_a_class_keeps_the_other_subscriptions(system: SeededSystem) -> None:
    heard: list[object] = []
    unhandled = UnhandledMessage(message=says("x"), sender=None, recipient=Ref("/user/a", 1))
    system.event_stream.subscribe(heard.append, Say, UnhandledMessage)

    system.event_stream.unsubscribe(heard.append, Say)
    for event in (says("one"), unhandled):
        system.event_stream.publish(event)

    assert heard == [unhandled]


def test_a_subscription_ends_with_its_actor(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    subscriber = system.spawn(scripted_actor([]), "a")
    system.event_stream.subscribe(subscriber, Say, ActorTerminated)

    subscriber.stop()
    system.event_stream.publish(says("one"))

    assert letters == []


def test_a_failing_subscriber_does_not_affect_the_others(system: SeededSystem) -> None:
    heard: list[object] = []
    system.event_stream.subscribe(lambda _: 1 / 0, Say)
    system.event_stream.subscribe(heard.append, Say)

    system.event_stream.publish(says("one"))

    assert heard == [says("one")]


def test_unhandled_messages_are_published(system: SeededSystem, caplog: pytest.LogCaptureFixture) -> None:
    unhandled: list[UnhandledMessage] = []
    system.event_stream.subscribe(unhandled.append, UnhandledMessage)
    ref = system.spawn(scripted_actor([]), "a")
    foreign = UnhandledMessage(message=says("x"), sender=None, recipient=ref)

    for _ in range(3):
        ref.tell(foreign)
    system.run_until_idle()

    assert unhandled == [UnhandledMessage(message=foreign, sender=None, recipient=ref)] * 3
    text = f"{ref} has no handler for UnhandledMessage from outside"
    assert caplog.messages == [text, f"{text} (the same 2 times)"]


def test_sending_to_any_ref_never_raises_in_the_sender(system: SeededSystem) -> None:
    log: list[str] = []
    dead = system.spawn(scripted_actor([]), "dead")
    dead.stop()
    sender = system.spawn(scripted_actor(log, {"go": lambda _: dead.tell(says("x"))}), "s")

    for word in ("go", "on"):
        sender.tell(says(word))
    system.run_until_idle()

    assert log == ["s start", "s go", "s on"]


def test_the_dead_letter_log_is_rate_limited(system: SeededSystem, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flykka.runtime")
    nobody = system.dead_ref("/user/nobody")

    for _ in range(100):
        nobody.tell(says("x"))
    system.advance(10_000)
    nobody.tell(says("x"))

    assert len([record for record in caplog.records if "dead letter " in record.message]) == 11
    assert "90 more dead letters were not logged" in caplog.text


def test_a_message_refused_by_the_codec_fails_the_sender(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    receiver = system.spawn(scripted_actor([]), "r")
    sender = system.spawn(scripted_actor([], {"go": lambda _: receiver.tell(Say(text=object()))}), "s")  # type: ignore[arg-type]

    sender.tell(says("go"))
    system.run_until_idle()

    assert [failure.ref for failure in failures] == [sender]
    with pytest.raises(EncodeError, match=r"Say\.text"):
        receiver.tell(Say(text=1))  # type: ignore[arg-type]


def test_refs_in_messages_are_decoded_as_live_refs(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    wired = system.wire(Terminated(ref=ref))

    assert isinstance(wired, Terminated)
    assert wired.ref is ref
