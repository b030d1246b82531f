"""Measures the kernel with supervision, fencing and all other defaults; optionally recorded to a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.actors.messages import BEGIN, QUESTION, WORK, Begin
from benchmarks.actors.side import FAN, RING, SECONDS_AT_MOST, Discipline, Latch
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.recorder import TraceRecorder


class Counter(Actor):
    def __init__(self, latch: Latch) -> None:
        self._latch = latch

    def handle_message(self, message: Message) -> None:
        self._latch.arrive()


class Answerer(Actor):
    def handle_message(self, message: Message) -> None:
        sender = self.context.sender
        assert sender is not None
        sender.tell(WORK)


class Relay(Actor):
    def __init__(self, latch: Latch) -> None:
        self._latch = latch

    def handle_message(self, message: Message) -> None:
        if not self._latch.arrive():
            self.context.ref.tell(message)


class Hub(Actor):
    def __init__(self, latch: Latch) -> None:
        self._latch = latch

    def pre_start(self) -> None:
        self._others = [self.context.spawn(Props(Leaf, self.context.ref), f"leaf-{number}") for number in range(FAN)]

    def handle_message(self, message: Message) -> None:
        if type(message) is Begin:
            for other in self._others:
                other.tell(WORK)
        else:
            self._latch.arrive()


class Leaf(Actor):
    def __init__(self, hub: ActorRef) -> None:
        self._hub = hub

    def handle_message(self, message: Message) -> None:
        self._hub.tell(message)


class Link(Actor):
    """Forwards messages to the next link, which is set before the first message."""

    def __init__(self, links: list[ActorRef], number: int, latch: Latch) -> None:
        self._links = links
        self._number = number
        self._latch = latch

    def handle_message(self, message: Message) -> None:
        if not self._latch.arrive():
            self._links[(self._number + 1) % RING].tell(message)


class FlykkaSide:
    """Measures the kernel. With a `trace`, every turn is recorded, and the time ends when the file is complete."""

    def __init__(self, trace: Path | None = None) -> None:
        self._trace = trace

    def measure(self, discipline: Discipline, count: int) -> float:
        recorder = None if self._trace is None else TraceRecorder(self._trace)
        system = ActorSystem("bench", recorder=recorder)
        try:
            begun = _MEASURES[discipline](system, count)
            if recorder is not None:
                recorder.close()
            return time.perf_counter() - begun
        finally:
            system.terminate().wait(timeout=SECONDS_AT_MOST)


def _tell(system: ActorSystem, count: int) -> float:
    latch = Latch(count)
    ref = system.spawn(Props(Counter, latch), "counter")
    begun = time.perf_counter()
    for _ in range(count):
        ref.tell(WORK)
    latch.wait()
    return begun


def _relay(system: ActorSystem, count: int) -> float:
    latch = Latch(count)
    ref = system.spawn(Props(Relay, latch), "relay")
    begun = time.perf_counter()
    ref.tell(WORK)
    latch.wait()
    return begun


def _ask(system: ActorSystem, count: int) -> float:
    ref = system.spawn(Props(Answerer), "answerer")
    begun = time.perf_counter()
    for _ in range(count):
        ref.ask(QUESTION)
    return begun


def _fan_out(system: ActorSystem, count: int) -> float:
    rounds = count // (2 * FAN)
    latch = Latch(rounds * FAN)
    hub = system.spawn(Props(Hub, latch), "hub")
    _wait_started(system, f"{hub.path}/leaf-{FAN - 1}")
    begun = time.perf_counter()
    for _ in range(rounds):
        hub.tell(BEGIN)
    latch.wait()
    return begun


def _ring(system: ActorSystem, count: int) -> float:
    latch = Latch(count)
    links: list[ActorRef] = []
    links += [system.spawn(Props(Link, links, number, latch), f"link-{number}") for number in range(RING)]
    begun = time.perf_counter()
    links[0].tell(WORK)
    latch.wait()
    return begun


def _wait_started(system: ActorSystem, path: str) -> None:
    while system.find(path) is None:
        time.sleep(0.001)


_MEASURES: dict[Discipline, Callable[[ActorSystem, int], float]] = {
    Discipline.TELL: _tell,
    Discipline.RELAY: _relay,
    Discipline.ASK: _ask,
    Discipline.FAN_OUT: _fan_out,
    Discipline.RING: _ring,
}
