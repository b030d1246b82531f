"""A strict system refuses calls that a seed cannot reproduce, and the error names the call; all other calls are
allowed.
"""

from __future__ import annotations

import datetime
import gc
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import NondeterminismError
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import says, scripted_actor


def do(deed: Callable[[ActorContext], object], *, strict: bool = True) -> list[str]:
    log: list[str] = []
    with SeededSystem(3, strict=strict) as system:
        system.spawn(scripted_actor(log, {"do": deed}), "a").tell(says("do"))
        system.run_until_idle()
    return log


@pytest.mark.parametrize(
    ("deed", "call", "instead"),
    [
        (lambda _: time.time(), "time.time()", "context.now()"),
        (lambda _: time.monotonic(), "time.monotonic()", "context.now()"),
        (lambda _: time.sleep(0), "time.sleep()", "a timer"),
        (lambda _: datetime.datetime.now(), "datetime.now()", "context.now()"),
        (lambda _: datetime.date.today(), "date.today()", "context.now()"),
        (lambda _: random.random(), "the random module", "context.random"),
        (lambda _: random.choice([1, 2]), "random.choice()", "context.random"),
        (lambda _: uuid.uuid4(), "uuid.uuid4()", "context.new_id"),
        (lambda _: os.urandom(4), "os.urandom()", "context.new_id"),
        (lambda _: open(os.devnull).close(), "open()", "pipe_to_self"),
        (lambda _: Path(os.devnull).read_text(), "pathlib.read_text()", "pipe_to_self"),
        (lambda _: socket.socket(), "socket", "pipe_to_self"),
        (lambda _: subprocess.run([sys.executable]), "subprocess", "pipe_to_self"),
        (lambda _: threading.Thread(target=print).start(), "threading.start()", "pipe_to_self"),
    ],
)
def test_a_nondeterministic_call_is_refused_with_a_replacement(
    deed: Callable[[ActorContext], object], call: str, instead: str
) -> None:
    with pytest.raises(NondeterminismError) as refused:
        do(deed)

    text = str(refused.value)
    assert text.startswith("/user/a uses ")
    assert call in text
    assert f"{Path(__file__).name}:" in text
    assert instead in text


def test_a_system_that_is_not_strict_refuses_no_call() -> None:
    assert do(lambda _: time.time(), strict=False)[:2] == ["a start", "a do"]


def test_deterministic_sources_of_the_kernel_are_allowed() -> None:
    def deed(context: ActorContext) -> None:
        context.now()
        context.random.choice([1, 2])
        context.new_id("x")
        context.timers.start_once("k", 5, says("tick"))
        context.pipe_to_self(time.time, lambda _: says("piped"), lambda _: says("failed"))
        random.Random(5).random()

    assert "a piped" in do(deed)


def test_logging_raising_and_importing_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    def deed(_context: ActorContext) -> None:
        logging.getLogger("test").warning("said in a turn")
        sys.modules.pop("this", None)
        import colorsys  # noqa: F401

        raise ValueError("a failure with a stack")

    log = do(deed)

    assert log.count("a restart") == 1
    assert "said in a turn" in caplog.text


def test_a_refused_call_fails_its_actor_and_is_not_executed(tmp_path: Path) -> None:
    log: list[str] = []
    with SeededSystem(3, strict=True) as system:
        ref = system.spawn(scripted_actor(log, {"do": lambda _: (tmp_path / "made").write_text("x")}), "a")
        ref.tell(says("do"))
        with pytest.raises(NondeterminismError):
            system.run_until_idle()
        system.run_until_idle()

    assert "a restart" in log
    assert not (tmp_path / "made").exists()


def test_code_outside_turns_is_not_restricted() -> None:
    with SeededSystem(3, strict=True) as system:
        system.event_stream.subscribe(lambda _: time.time(), object)
        system.spawn(scripted_actor([], {"do": lambda c: c.publish(says("x"))}), "a").tell(says("do"))
        system.run_until_idle()
        assert time.time() > 0


def test_gc_callbacks_during_a_turn_are_not_restricted() -> None:
    seen: list[float] = []

    def note(_phase: str, _info: dict[str, int]) -> None:
        seen.append(time.perf_counter())

    gc.callbacks.append(note)
    try:
        log = do(lambda _: [[] for _ in range(100_000)])
    finally:
        gc.callbacks.remove(note)

    assert log
    assert gc.isenabled()
