"""A system that fails to start or to release its resources leaves nothing open, and callers do not hang."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from flykka.runtime.dispatch.pool import BlockingPool
from flykka.runtime.errors import DurationError
from flykka.runtime.props import DispatcherName, Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from tests.runtime.scripted_actors import replies, says, scripted_actor


class Unclosable(FlightRecorder):
    def close(self) -> None:
        raise OSError("the disk is gone")


class Work:
    def __init__(self) -> None:
        self.done = threading.Event()

    def run(self) -> None:
        self.done.set()


def forbid_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make starting threads fail, as when the operating system has no more of them."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"slow_turn_threshold": "soon"}, DurationError),
        ({"default_ask_timeout": 0}, ValueError),
        ({"default_ask_timeout": None}, ValueError),
        ({"default_ask_timeout": float("nan")}, ValueError),
        ({"default_ask_timeout": "5s"}, ValueError),
    ],
)
def test_a_system_that_fails_to_start_leaves_no_thread(option: dict[str, Any], error: type[Exception]) -> None:
    before = threading.enumerate()

    with pytest.raises(error, match=next(iter(option))):
        ActorSystem("refused", **option)

    assert threading.enumerate() == before


def test_a_recorder_that_cannot_be_closed_does_not_block_termination(
    caplog: pytest.LogCaptureFixture,
) -> None:
    system = SeededSystem(recorder=Unclosable())

    assert system.terminate().wait(timeout=1)

    assert "the disk is gone" in caplog.text


@pytest.mark.parametrize("dispatcher", ["pinned", "loop"])
def test_an_actor_whose_thread_cannot_start_is_not_registered(
    threaded: ActorSystem, monkeypatch: pytest.MonkeyPatch, dispatcher: DispatcherName
) -> None:
    props: Props = scripted_actor([], {"hello": replies}).with_dispatcher(dispatcher)

    with monkeypatch.context() as meanwhile:
        forbid_threads(meanwhile)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threaded.spawn(props, "a")
    second = threaded.spawn(props, "a")

    assert second.incarnation == 2
    assert second.ask(says("hello"), timeout=5) == says("reply")


def test_work_refused_for_lack_of_threads_is_never_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, refused, accepted = BlockingPool(limit=1), Work(), Work()

    with monkeypatch.context() as meanwhile:
        forbid_threads(meanwhile)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(refused)
    pool.submit(accepted)

    assert accepted.done.wait(5)
    assert not refused.done.is_set()
    pool.shutdown()


def test_an_actor_with_a_just_freed_name_is_listed_as_child(threaded: ActorSystem) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(500):
            threaded.spawn(scripted_actor([]), f"a{number}").stop()
            # The guardian `/user` records the end at this moment, on another thread.
            threaded.spawn(scripted_actor([]), f"a{number}")
    finally:
        sys.setswitchinterval(interval)

    # An actor that its parent does not know would outlive its parent and its system.
    assert threaded.terminate().wait(timeout=5)
