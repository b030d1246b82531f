"""The thread of a pinned actor is started by Pykka, survives failures of turns, and ends with its actor."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import pykka
import pytest
from pykka import messages as pykka_messages

from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.pinned_cell import PinnedCell
from flykka.runtime.events import UnhandledMessage
from flykka.runtime.mailbox.message_queue import Entry
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, Gate
from tests.runtime.scripted_actors import fails, in_turn, replies, says, scripted_actor


def thread_of(ref: ActorRef) -> threading.Thread:
    """Return the thread of a pinned actor that has taken a turn."""
    (thread,) = [thread for thread in threading.enumerate() if thread.name == f"flykka-pinned-{ref}"]
    return thread


def start_actor(system: ActorSystem, props: Props) -> ActorRef:
    ref = system.spawn(props.with_dispatcher("pinned"), "a")
    assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
    return ref


def assert_ends(thread: threading.Thread) -> None:
    thread.join(LONG_ENOUGH)
    assert not thread.is_alive()


def test_a_pinned_actor_on_threads_is_a_pykka_threading_actor() -> None:
    pinned = scripted_actor([]).with_dispatcher("pinned")
    with ActorSystem("threads") as threaded, SeededSystem(1) as seeded:
        assert isinstance(threaded.spawn(pinned, "a").actor_inbox.owner, pykka.ThreadingActor)
        assert type(seeded.spawn(pinned, "a").actor_inbox.owner) is Cell


def test_a_stop_ends_the_thread(threaded: ActorSystem) -> None:
    ref = start_actor(threaded, scripted_actor([], {"r": replies}))
    thread = thread_of(ref)

    ref.stop(timeout=LONG_ENOUGH)

    assert_ends(thread)
    assert ref not in pykka.ActorRegistry.get_all()


def test_a_kill_ends_an_idle_thread(threaded: ActorSystem) -> None:
    ref = start_actor(threaded, scripted_actor([], {"r": replies}))
    thread = thread_of(ref)

    threaded.kill(ref)

    assert_ends(thread)
    assert ref not in pykka.ActorRegistry.get_all()


def test_a_kill_ends_the_thread_after_its_current_turn(threaded: ActorSystem) -> None:
    gate = Gate()
    ref = start_actor(threaded, scripted_actor([], {"r": replies, "hold": gate.hold}))
    thread = thread_of(ref)
    ref.tell(says("hold"))
    gate.wait_reached()

    threaded.kill(ref)
    assert not ref.is_alive()
    assert thread.is_alive()
    gate.open()

    assert_ends(thread)


def test_a_restart_keeps_the_thread(threaded: ActorSystem) -> None:
    threads: list[threading.Thread] = []
    script = {"r": in_turn(lambda _: threads.append(threading.current_thread()), replies), "fail": fails}
    ref = start_actor(threaded, scripted_actor([], script))

    ref.tell(says("fail"))
    ref.ask(says("r"), timeout=LONG_ENOUGH)

    assert threads[0] is threads[1]


def test_the_thread_of_a_pinned_actor_survives_a_kernel_error(
    threaded: ActorSystem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ref = start_actor(threaded, scripted_actor([], {"r": replies}))
    with monkeypatch.context() as broken:
        reached = Gate()

        def fail(_cell: PinnedCell, _message: object) -> None:
            reached.hold()
            raise SystemExit(1)

        broken.setattr(PinnedCell, "_tell_turn", fail)
        ref.tell(says("x"))
        reached.wait_reached()
        reached.open()

    assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
    assert f"the kernel failed while it ran {ref}" in caplog.text


class FailingOnce(deque[Entry]):
    fails = True

    def popleft(self) -> Entry:
        if self.fails:
            self.fails = False
            raise MemoryError
        return super().popleft()


def test_the_thread_of_a_pinned_actor_survives_a_failing_queue(
    threaded: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    ref = start_actor(threaded, scripted_actor([], {"r": replies}))
    ref.actor_inbox.messages = FailingOnce()

    assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
    assert f"the kernel failed while it ran {ref}" in caplog.text


@pytest.mark.parametrize("theirs", [pykka_messages._ActorStop(), pykka_messages.ProxyGetAttr(("system",))])
def test_pykkas_internal_messages_are_ordinary_messages(theirs: object) -> None:
    unhandled: list[object] = []
    with ActorSystem("threads") as system:
        system.event_stream.subscribe(lambda event: unhandled.append(event.message), UnhandledMessage)
        ref = start_actor(system, scripted_actor([], {"r": replies}))

        ref.tell(theirs)  # type: ignore[arg-type]  # No message of ours.

        assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
        assert unhandled == [theirs]


class Heavy:
    """A message class that supports weak references."""


def test_an_idle_thread_keeps_no_message_in_memory() -> None:
    forgotten = threading.Event()
    with ActorSystem("threads") as system:
        ref = start_actor(system, scripted_actor([], {"r": replies}))
        heavy = Heavy()
        weakref.finalize(heavy, forgotten.set)
        ref.tell(heavy)  # type: ignore[arg-type]
        del heavy

        assert forgotten.wait(LONG_ENOUGH)
