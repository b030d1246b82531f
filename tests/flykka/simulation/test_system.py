"""The system of a simulation: paused actors, lost and duplicated messages, and clock jumps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.messages.wire.message import Message, message
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.simulation.system import SimulatedSystem


@message("simulation_test.note")
class Note(Message):
    """test -> Listener: record this."""

    text: str


@message("simulation_test.tick")
class Tick(Message):
    """Listener's timer -> itself: record the time."""


class Listener(Actor):
    def __init__(self, heard: list[tuple[int, str]]) -> None:
        self._heard = heard

    def pre_start(self) -> None:
        self.context.timers.start_once("tick", 1_000, Tick())

    def handle_message(self, message: Message) -> None:
        self._heard.append((self.context.now(), message.text if isinstance(message, Note) else "tick"))


@pytest.fixture
def system() -> Iterator[SimulatedSystem]:
    with SimulatedSystem(1, "here", MonitoringRecorder(None, ())) as system:
        yield system


def test_a_paused_actor_receives_all_messages_later_and_in_order(system: SimulatedSystem) -> None:
    heard: list[tuple[int, str]] = []
    listener = system.spawn(Props(Listener, heard), "listener")
    system.advance(10)

    system.schedule.pause("/user/listener", 300)
    listener.tell(Note(text="first"))
    listener.tell(Note(text="second"))
    assert system.schedule.is_paused("/user/listener")
    system.advance(500)

    assert not system.schedule.is_paused("/user/listener")
    assert heard == [(310, "first"), (310, "second")]


def test_the_configured_number_of_messages_is_lost_or_duplicated(system: SimulatedSystem) -> None:
    heard: list[tuple[int, str]] = []
    listener = system.spawn(Props(Listener, heard), "listener")
    system.network.lost[Note, Listener] = 1
    system.network.doubled[Note, Listener] = 1

    for text in ("first", "second", "third"):
        listener.tell(Note(text=text))
    system.advance(1)

    assert [text for _, text in heard] == ["second", "second", "third"]
    assert system.network.happened == {"loss": 1, "duplicate": 1}
    assert system.network.is_perfect


def test_a_message_lost_at_one_actor_arrives_at_others(system: SimulatedSystem) -> None:
    heard: list[tuple[int, str]] = []
    listener = system.spawn(Props(Listener, heard), "listener")
    system.network.lost[Note, Actor] = 1

    listener.tell(Note(text="first"))
    system.advance(1)

    assert [text for _, text in heard] == ["first"]


def test_a_lost_timer_does_not_fire(system: SimulatedSystem) -> None:
    heard: list[tuple[int, str]] = []
    system.spawn(Props(Listener, heard), "listener")
    system.network.silenced[Tick, Listener] = 1

    system.advance(2_000)

    assert heard == []
    assert system.network.happened == {"timer": 1}


def test_timers_fire_late_if_the_clock_jumps(system: SimulatedSystem) -> None:
    heard: list[tuple[int, str]] = []
    system.spawn(Props(Listener, heard), "listener")
    system.advance(10)

    system.jump(5_000)
    system.advance(0)

    assert heard == [(5_010, "tick")]
