"""Isolated actors of a simulation: in one direction or both, for all messages or some, delayed or dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.messages.wire.message import Message, message
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.actor import Actor
from flykka.runtime.events import DeadLetter
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.simulation.system import Cut, Direction, SimulatedSystem
from tests.actors.peer import Utter


@message("simulation_test.word")
class Word(Message):
    """actor -> actor: record this."""

    text: str


@message("simulation_test.sign")
class Sign(Message):
    """actor -> actor: a heartbeat."""


class RecordingActor(Actor):
    """Records the messages that it receives, and sends the messages that the test specifies."""

    def __init__(self, received: list[str]) -> None:
        self._received = received

    def handle_message(self, message: Message) -> None:
        match message:
            case Utter(receiver=receiver, message=uttered):
                receiver.tell(uttered)
            case Word(text=text):
                self._received.append(text)
            case Sign():
                self._received.append("sign")


class Pair:
    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self.received: dict[str, list[str]] = {"here": [], "there": []}
        self.refs: dict[str, ActorRef] = {
            name: system.spawn(Props(RecordingActor, received), name) for name, received in self.received.items()
        }

    def cut(self, direction: Direction = Direction.BOTH, **how: object) -> Cut:
        cut = Cut(path="/user/there", direction=direction, **how)  # type: ignore[arg-type]
        self.system.network.cuts.append(cut)
        return cut

    def send(self, who: str, to: str, message: Message) -> None:
        self.refs[who].tell(Utter(receiver=self.refs[to], message=message))
        self.system.advance(1)

    def send_both_ways(self, text: str) -> None:
        self.send("here", "there", Word(text=text))
        self.send("there", "here", Word(text=text))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with SimulatedSystem(1, "here", MonitoringRecorder(None, ())) as system:
        yield Pair(system)


@pytest.mark.parametrize(
    ("direction", "comes_here", "comes_there"),
    [(Direction.BOTH, [], []), (Direction.IN, ["a"], []), (Direction.OUT, [], ["a"])],
)
def test_an_isolated_actor_neither_receives_nor_sends(
    pair: Pair, direction: Direction, comes_here: list[str], comes_there: list[str]
) -> None:
    pair.cut(direction)

    pair.send_both_ways("a")

    assert pair.received == {"here": comes_here, "there": comes_there}


def test_messages_sent_during_isolation_arrive_late_and_in_order(pair: Pair) -> None:
    cut = pair.cut()
    pair.send_both_ways("a")
    pair.send_both_ways("b")

    pair.system.network.heal(cut)
    pair.send_both_ways("c")

    assert pair.received == {"here": ["a", "b", "c"], "there": ["a", "b", "c"]}
    assert pair.system.network.is_perfect


def test_only_some_messages_may_be_delayed(pair: Pair) -> None:
    pair.cut(only=frozenset({Sign}))

    pair.send("here", "there", Sign())
    pair.send("here", "there", Word(text="a"))

    assert pair.received["there"] == ["a"]


def test_isolation_does_not_apply_to_exempt_actors(pair: Pair) -> None:
    pair.cut(exempt=("/user/here",))

    pair.send_both_ways("a")

    assert pair.received == {"here": ["a"], "there": ["a"]}


def test_messages_without_a_sender_are_not_isolated(pair: Pair) -> None:
    pair.cut()

    pair.refs["there"].tell(Word(text="from outside"))
    pair.system.advance(1)

    assert pair.received["there"] == ["from outside"]


def test_a_delayed_message_to_an_ended_actor_is_a_dead_letter(pair: Pair) -> None:
    letters: list[DeadLetter] = []
    pair.system.event_stream.subscribe(letters.append, DeadLetter)
    cut = pair.cut()
    pair.send("here", "there", Word(text="a"))

    pair.system.kill(pair.refs["there"])
    pair.system.network.heal(cut)

    assert [letter.message for letter in letters] == [Word(text="a")]
