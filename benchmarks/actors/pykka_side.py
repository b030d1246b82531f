"""Measures plain Pykka, used as in its documentation: each actor has a thread."""

from __future__ import annotations

import time
from collections.abc import Callable

import pykka
from pykka import ActorRegistry

from benchmarks.actors.messages import BEGIN, QUESTION, WORK, Begin, Work
from benchmarks.actors.side import FAN, RING, Discipline, Latch


class Counter(pykka.ThreadingActor):
    def __init__(self, latch: Latch) -> None:
        super().__init__()
        self._latch = latch

    def on_receive(self, message: object) -> None:
        self._latch.arrive()


class Answerer(pykka.ThreadingActor):
    def on_receive(self, message: object) -> Work:
        return WORK


class Relay(pykka.ThreadingActor):
    def __init__(self, latch: Latch) -> None:
        super().__init__()
        self._latch = latch

    def on_receive(self, message: object) -> None:
        if not self._latch.arrive():
            self.actor_ref.tell(message)


class Hub(pykka.ThreadingActor):
    def __init__(self, latch: Latch) -> None:
        super().__init__()
        self._latch = latch
        self._others = [Leaf.start(self.actor_ref) for _ in range(FAN)]

    def on_receive(self, message: object) -> None:
        if type(message) is Begin:
            for other in self._others:
                other.tell(WORK)
        else:
            self._latch.arrive()


class Leaf(pykka.ThreadingActor):
    def __init__(self, hub: pykka.ActorRef[Hub]) -> None:
        super().__init__()
        self._hub = hub

    def on_receive(self, message: object) -> None:
        self._hub.tell(message)


class Link(pykka.ThreadingActor):
    next: pykka.ActorRef[Link]

    def __init__(self, latch: Latch) -> None:
        super().__init__()
        self._latch = latch

    def on_receive(self, message: object) -> None:
        if isinstance(message, pykka.ActorRef):
            self.next = message
        elif not self._latch.arrive():
            self.next.tell(message)


class PykkaSide:
    def measure(self, discipline: Discipline, count: int) -> float:
        try:
            return _MEASURES[discipline](count)
        finally:
            ActorRegistry.stop_all()


def _tell(count: int) -> float:
    latch = Latch(count)
    ref = Counter.start(latch)
    begun = time.perf_counter()
    for _ in range(count):
        ref.tell(WORK)
    latch.wait()
    return time.perf_counter() - begun


def _relay(count: int) -> float:
    latch = Latch(count)
    ref = Relay.start(latch)
    begun = time.perf_counter()
    ref.tell(WORK)
    latch.wait()
    return time.perf_counter() - begun


def _ask(count: int) -> float:
    ref = Answerer.start()
    begun = time.perf_counter()
    for _ in range(count):
        ref.ask(QUESTION)
    return time.perf_counter() - begun


def _fan_out(count: int) -> float:
    rounds = count // (2 * FAN)
    latch = Latch(rounds * FAN)
    hub = Hub.start(latch)
    begun = time.perf_counter()
    for _ in range(rounds):
        hub.tell(BEGIN)
    latch.wait()
    return time.perf_counter() - begun


def _ring(count: int) -> float:
    latch = Latch(count)
    links = [Link.start(latch) for _ in range(RING)]
    for link, following in zip(links, [*links[1:], links[0]], strict=True):
        link.ask(following)
    begun = time.perf_counter()
    links[0].tell(WORK)
    latch.wait()
    return time.perf_counter() - begun


_MEASURES: dict[Discipline, Callable[[int], float]] = {
    Discipline.TELL: _tell,
    Discipline.RELAY: _relay,
    Discipline.ASK: _ask,
    Discipline.FAN_OUT: _fan_out,
    Discipline.RING: _ring,
}
