"""The result of blocking work is sent to the actor as a message."""

from __future__ import annotations

import threading

from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, says, scripted_actor


def failure_message(error: BaseException) -> Message:
    return says(f"failed with {error}")


def test_the_outcome_arrives_as_a_message(system: SeededSystem) -> None:
    log: list[str] = []

    def begin(context: ActorContext) -> None:
        context.pipe_to_self(lambda: 6 * 7, lambda value: says(f"got {value}"), failure_message)
        context.pipe_to_self(lambda: 1 // 0, lambda value: says(f"got {value}"), failure_message)

    system.spawn(scripted_actor(log, {"start": begin}), "a")
    system.run_until_idle()

    assert sorted(log) == ["a failed with integer division or modulo by zero", "a got 42", "a start"]


def test_an_outcome_that_cannot_be_sent_fails_the_actor(system: SeededSystem) -> None:
    log: list[str] = []

    def broken(_value: object) -> Message:
        raise LookupError("no such message")

    system.spawn(scripted_actor(log, {"start": lambda c: c.pipe_to_self(lambda: 1, broken, broken)}), "a")
    system.run_until_idle()

    assert log == ["a start", "a stop", "a restart"]


def test_work_blocks_no_actor(threaded: ActorSystem) -> None:
    free = threading.Event()
    probe = TestProbe(threaded)

    def begin(context: ActorContext) -> None:
        for _ in range(8):
            context.pipe_to_self(lambda: free.wait(5), lambda _: says("done"), failure_message)

    script = {"start": begin, "free": lambda _: free.set(), "done": lambda _: probe.ref.tell(says("done"))}
    threaded.spawn(scripted_actor([], script), "a").tell(says("free"))

    for _ in range(8):
        assert probe.expect_message(Say) == says("done")
