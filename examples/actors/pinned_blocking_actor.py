"""A pinned actor: it has its own thread, so it may block without delaying other actors.

    python examples/actors/pinned_blocking_actor.py

Prints:

    the counter has counted 0 lines
    the reader has read: first
    the reader has read: second
    the reader has read everything
    the counter has counted 2 lines
"""

from __future__ import annotations

import os
from typing import TextIO

from flykka.runtime import Actor, ActorRef, ActorSystem, Message, Props, message


@message("pinned.read")
class Read(Message):
    """Reader -> itself: wait for the next line."""


@message("pinned.line")
class Line(Message):
    """Reader -> Counter: a line was read."""


@message("pinned.count")
class Count(Message):
    """main -> Counter: how many lines were read? The reply is `Counted`."""


@message("pinned.counted")
class Counted(Message):
    """Counter -> asker: the number of lines."""

    lines: int


class Counter(Actor):
    """Runs on the shared pool, like most actors, and never blocks."""

    def __init__(self) -> None:
        self._lines = 0

    def handle_message(self, message: Message) -> None:
        match message:
            case Line():
                self._lines += 1
            case Count():
                assert self.context.sender is not None
                self.context.sender.tell(Counted(lines=self._lines))


class Reader(Actor):
    """Reads lines that arrive at unknown times, so its turns block.

    The actor reads one line per turn, so that it can be stopped between two lines. Occasional blocking work needs no
    such thread: `context.pipe_to_self` runs it on the pool for I/O.
    """

    def __init__(self, file: TextIO, counter: ActorRef) -> None:
        self._file = file
        self._counter = counter

    def pre_start(self) -> None:
        """Start reading. The file is closed when the actor stops."""
        self.context.own(self._file)
        self.context.ref.tell(Read())

    def handle_message(self, message: Message) -> None:
        """Wait for one line."""
        line = self._file.readline()
        if not line:
            print("the reader has read everything")
            self.context.stop()
            return
        print(f"the reader has read: {line.strip()}")
        self._counter.tell(Line())
        self.context.ref.tell(Read())


def main() -> None:
    """Run a reader that waits for lines, and a counter that replies meanwhile."""
    read_end, write_end = os.pipe()
    with ActorSystem("pinned") as system:
        counter = system.spawn(Props(Counter), "counter")
        reader = system.spawn(Props(Reader, os.fdopen(read_end), counter).with_dispatcher("pinned"), "reader")
        print(f"the counter has counted {counter.ask(Count(), timeout=5).lines} lines")
        with os.fdopen(write_end, "w") as lines:
            lines.write("first\nsecond\n")
        reader.actor_stopped.wait(5)
        print(f"the counter has counted {counter.ask(Count(), timeout=5).lines} lines")


if __name__ == "__main__":
    main()
