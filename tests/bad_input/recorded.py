"""Actors to be recorded: a well-behaved actor, and some that cannot be replayed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from flykka.messages.wire.message import Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder


@message("bad_input.note")
class Note(Message):
    """test -> actor: a word or a number."""

    text: str


class Echo(Actor):
    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Note)
        self.say(self.context.new_id("note"))

    def say(self, text: str) -> None:
        """Send a word to this actor, unless the current word came from this actor."""
        if self.context.sender != self.context.ref:
            self.context.ref.tell(Note(text=text))


class Counter(Echo):
    def __init__(self) -> None:
        self._words: list[str] = []

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Note)
        self._words.append(message.text)


class Crowded(Echo):
    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def handle_message(self, message: Message) -> None:
        self._known = {f"thing {number}": "x" * 1_000 for number in range(1_000)}


class ReadsTheClock(Echo):
    def handle_message(self, message: Message) -> None:
        self.say(str(time.time_ns()))


class Sleeps(Echo):
    def handle_message(self, message: Message) -> None:
        begun = time.perf_counter_ns()
        time.sleep(0.001)
        self.say(str(time.perf_counter_ns() - begun))


class StartsAThread(Echo):
    def handle_message(self, message: Message) -> None:
        thread = threading.Thread(target=int, name="of-a-turn")
        thread.start()
        thread.join()
        self.say(str(thread.native_id))


def record_echo(path: Path, actor: type[Actor] = Echo, words: tuple[str, ...] = ("one", "two", "three")) -> Path:
    with SeededSystem(name="recorded", recorder=TraceRecorder(path)) as system:
        ref = system.spawn(Props(actor), "actor")
        for word in words:
            ref.tell(Note(text=word))
            system.run_until_idle()
    return path
