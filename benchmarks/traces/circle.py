"""Light actors in a circle that forward one message, so that a turn is almost only the work of kernel and recorder."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.recorder import TraceRecorder

ACTORS = 8
SECONDS_AT_MOST = 120.0


@message("benchmark.neighbour")
class Neighbour(Message):
    """benchmark -> Hop: forward parcels to `ref`."""

    ref: Ref


@message("benchmark.parcel")
class Parcel(Message):
    """Hop -> Hop: forward this."""


@message("benchmark.delivered")
class Delivered(Message):
    """Hop -> event stream: the message was forwarded the required number of times."""


class Hop(Actor):
    def __init__(self, times: int) -> None:
        self._left = times
        self._next: Ref | None = None

    def handle_message(self, message: Message) -> None:
        match message:
            case Parcel():
                self._left -= 1
                if self._left < 0:
                    self.context.publish(Delivered())
                elif self._next is not None:
                    self._next.tell(message)
            case Neighbour(ref=ref):
                self._next = ref


def record_circle(path: Path, turns: int) -> float:
    """Record about `turns` turns of eight actors on the system's threads; return the seconds."""
    recorder = TraceRecorder(path)
    delivered = threading.Event()
    with ActorSystem("circle", recorder=recorder) as system:
        system.event_stream.subscribe(lambda _: delivered.set(), Delivered)
        hops = [system.spawn(Props(Hop, turns // ACTORS), f"hop-{number}") for number in range(ACTORS)]
        for hop, neighbour in zip(hops, (*hops[1:], hops[0]), strict=True):
            hop.tell(Neighbour(ref=neighbour))
        begun = time.perf_counter()
        hops[0].tell(Parcel())
        if not delivered.wait(SECONDS_AT_MOST):
            raise TimeoutError(f"{turns} turns took more than {SECONDS_AT_MOST:.0f} s")
        recorder.close()
        return time.perf_counter() - begun
