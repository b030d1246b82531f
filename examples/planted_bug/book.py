"""Books a trip with the agency of `agency.py`, and records it.

    python book.py trip.trace

The program runs in virtual time, on one thread, so that its output and recording are the same everywhere. In production
the system would be an `ActorSystem`, with the same recorder.
"""

from __future__ import annotations

import sys

from agency import BookTrip, TravelAgent  # type: ignore[import-not-found]  # The module beside this one.

from flykka import TraceRecorder
from flykka.runtime import Props
from flykka.runtime.testing import SeededSystem

SUPPLIERS = {"airline": "500ms", "hotel": "3s", "car-rental": "6s"}


def main(path: str) -> None:
    """Book one trip, for Ada."""
    with SeededSystem(seed=7, name="agency", recorder=TraceRecorder(path)) as system:
        agent = system.spawn(Props(TravelAgent, SUPPLIERS), "agent")
        booked = agent.ask(BookTrip(traveller="Ada"))
        seconds = system.manual_clock.now_ms() / 1000
        print(f"booked for Ada after {seconds:.0f} s: {', '.join(booked.reserved)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
