"""Starts and stops many actors in one process: `python -m benchmarks.actors.population SIDE COUNT`.

A separate process is used because freed memory is seldom returned to the system. "Started" means that each actor has
run its first hook, "stopped" its last hook. The memory is that of the complete process while all actors are alive.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import asdict, dataclass

import pykka
from pykka import ActorRegistry

from benchmarks.actors.side import SECONDS_AT_MOST, Latch
from benchmarks.memory import resident_bytes
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem


@dataclass(frozen=True)
class Population:
    count: int
    start_s: float
    stop_s: float
    rss_mib: float


class Inhabitant(Actor):
    def __init__(self, started: Latch) -> None:
        self._started = started

    def pre_start(self) -> None:
        self._started.arrive()


class PykkaInhabitant(pykka.ThreadingActor):
    def __init__(self, started: Latch) -> None:
        super().__init__()
        self._started = started

    def on_start(self) -> None:
        self._started.arrive()


def flykka(count: int) -> Population:
    system = ActorSystem("population", default_ask_timeout=SECONDS_AT_MOST)
    started = Latch(count)
    props = Props(Inhabitant, started)
    begun = time.perf_counter()
    for number in range(count):
        system.spawn(props, f"inhabitant-{number}")
    started.wait()
    all_started = time.perf_counter()
    memory = resident_bytes([os.getpid()])
    stopping = time.perf_counter()
    system.terminate().wait(timeout=SECONDS_AT_MOST)
    return Population(count, all_started - begun, time.perf_counter() - stopping, memory / 2**20)


def plain(count: int) -> Population:
    """Start and stop actors of Pykka, each with its own thread."""
    started = Latch(count)
    begun = time.perf_counter()
    for _ in range(count):
        PykkaInhabitant.start(started)
    started.wait()
    all_started = time.perf_counter()
    memory = resident_bytes([os.getpid()])
    stopping = time.perf_counter()
    ActorRegistry.stop_all()
    return Population(count, all_started - begun, time.perf_counter() - stopping, memory / 2**20)


SIDES = {"flykka": flykka, "pykka": plain}


if __name__ == "__main__":
    # The watchdog would report the actor that stops so many children.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    print(json.dumps(asdict(SIDES[sys.argv[1]](int(sys.argv[2])))))
