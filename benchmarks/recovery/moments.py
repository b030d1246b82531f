"""Moments of a run: before the n-th message of a class is handled. They are drawn from a run without faults."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.runtime.testing.faults import PlannedFault

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem

MOST_OF_A_KIND = 30
"""The number of messages of each class that are used, the first ones, because these occur in every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment before any actor handles the `count`-th message of the class with this name."""

    message: str
    count: int

    def __str__(self) -> str:
        return f"{self.message} {self.count}"


class Observed:
    def __init__(self, system: ActorSystem) -> None:
        self.messages: Counter[str] = Counter()
        self._lock = threading.Lock()
        system.add_delivery_hook(self._on_delivery)

    def _on_delivery(self, _recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        with self._lock:
            self.messages[_name(message)] += 1


def inject_at(system: ActorSystem, moment: Moment, act: Callable[[], bool]) -> PlannedFault:
    """Call `act` once, at the moment; it returns True if there was a target."""
    return PlannedFault(system, lambda _, message: _name(message) == moment.message, act, moment.count)


def drawn(chance: random.Random, observed: Mapping[str, int]) -> Moment:
    """Draw a moment; each class of messages is equally likely, however rare it is."""
    message = chance.choice(sorted(observed))
    return Moment(message=message, count=chance.randint(1, min(observed[message], MOST_OF_A_KIND)))


def _name(message: Message) -> str:
    while isinstance(message, LeaderSessionMessage):
        message = message.message
    return type(message).__name__
