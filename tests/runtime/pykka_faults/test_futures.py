"""Futures are completed once and without holding locks, on threads and on event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pykka
import pytest

from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import AskFailedError, AskTimeoutError, FutureCancelledError
from flykka.runtime.events import DeadLetter
from flykka.runtime.futures.future import Future
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, Gate
from tests.runtime.scripted_actors import in_turn, replies, says, scripted_actor


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_p2_a_reply_set_from_outside_does_not_kill_the_actor(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    gate = Gate()
    stock = stage({"hold": gate.hold})
    stock.ref.ask("hold", block=False).set("from outside")
    gate.open()
    stock.wait_thread_ended()
    assert stock.ref.is_alive(), "and yet it handles nothing any more"

    gate = Gate()
    ref = threaded.spawn(ours([], {"hold": in_turn(gate.hold, replies), "r": replies}), "a")
    reply = ref.ask(says("hold"), block=False)
    reply.set(says("from outside"))
    gate.open()

    assert reply.get(timeout=LONG_ENOUGH) == says("from outside")
    assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")


async def _opens(gate: Gate, reply: Any) -> Any:
    """Awaits a reply that comes only if the event loop keeps running."""
    asyncio.get_running_loop().call_later(0.01, gate.open)
    return await reply


def test_p13_awaiting_a_future_does_not_block_the_event_loop(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    gate = Gate()
    stock = stage({"hold": lambda _: gate._open.wait(0.1)})
    assert asyncio.run(_opens(gate, stock.ref.ask("hold", block=False))) is False, "the loop could not open it"

    gate = Gate()
    opened: list[bool] = []
    ref = threaded.spawn(ours([], {"hold": in_turn(lambda _: opened.append(gate.hold()), replies)}), "a")

    assert asyncio.run(_opens(gate, ref.ask(says("hold"), block=False))) == says("reply")
    assert opened == [True]


def test_p14_a_future_is_not_iterable() -> None:
    theirs: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
    theirs.set("value")
    assert list(theirs) == [None]

    ours: Future[str] = Future()
    ours.set("value")

    with pytest.raises(TypeError):
        list(ours)  # type: ignore[call-overload]


def _in_another_thread(call: Callable[[], object]) -> object:
    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.append(call()), daemon=True)
    thread.start()
    thread.join(LONG_ENOUGH)
    return outcome[0] if outcome else "blocked"


def test_p15_map_computes_outside_the_futures_lock() -> None:
    theirs: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
    theirs.set(1)
    free: list[object] = []
    mapped: Any = theirs.map(
        lambda _: free.append(_in_another_thread(lambda: mapped._condition.acquire(blocking=False)))
    )
    mapped.get()
    assert free == [False]

    source: Future[int] = Future()
    cancelled: list[object] = []
    derived = source.map(lambda _: cancelled.append(_in_another_thread(lambda: derived.cancel())))
    source.set(1)

    assert cancelled == [True]


def test_p16_a_failing_map_runs_once() -> None:
    runs: list[str] = []

    def fails(whose: str) -> int:
        runs.append(whose)
        raise ValueError(whose)

    theirs: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
    theirs.set("theirs")
    ours: Future[str] = Future()
    ours.set("ours")
    for mapped in (theirs.map(fails), ours.map(fails)):
        for _ in range(3):
            with pytest.raises((ValueError, AskFailedError)):
                mapped.get()

    assert (runs.count("theirs"), runs.count("ours")) == (3, 1)


def test_p17_several_futures_share_one_deadline(system: SeededSystem) -> None:
    allowed: list[float | None] = []
    theirs: list[pykka.ThreadingFuture[Any]] = [pykka.ThreadingFuture() for _ in range(3)]
    for future in theirs:
        future.set_get_hook(allowed.append)
    pykka.get_all(theirs, timeout=10)
    assert allowed == [10] * 3, "half a minute in all"

    silent = [system.spawn(scripted_actor([]), f"a{number}") for number in range(3)]
    first, *others = (ref.ask(says("q"), block=False, timeout=100) for ref in silent)
    before_ms = system.clock.now_ms()
    with pytest.raises(AskTimeoutError):
        first.join(*others).get(timeout=10)

    assert system.clock.now_ms() - before_ms == 10_000


class Large:
    """An object that a local variable of a failing handler references."""


def test_p18_every_caller_gets_its_own_exception_without_frames(
    threaded: ActorSystem, stage: Stage, ours: Play
) -> None:
    kept: list[weakref.ref[Large]] = []

    def fails(_actor: object) -> None:
        local = Large()
        kept.append(weakref.ref(local))
        raise ValueError("as scripted")

    def twice(reply: Any) -> list[BaseException]:
        raised: list[BaseException] = []
        for _ in range(2):
            with pytest.raises((ValueError, AskFailedError), match="as scripted") as caught:
                reply.get(timeout=LONG_ENOUGH)
            raised.append(caught.value)
        return raised

    theirs = stage({"fail": fails}).ref.ask("fail", block=False)
    first, second = twice(theirs)
    assert first is second
    del first, second
    gc.collect()
    assert kept.pop()() is not None

    ref = threaded.spawn(ours([], {"fail": fails, "r": replies}), "a")
    reply = ref.ask(says("fail"), block=False)
    one, other = twice(reply)

    assert one is not other
    assert isinstance(one, AskFailedError)
    assert "in fails" in one.failure.stack_trace
    ref.ask(says("r"), timeout=LONG_ENOUGH)
    del one, other
    gc.collect()
    assert kept.pop()() is None


def test_p19_futures_have_done_callbacks_and_cancel(system: SeededSystem) -> None:
    assert not {"done", "add_done_callback", "cancel"} & set(dir(pykka.ThreadingFuture))

    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    askers: list[Ref | None] = []
    ref = system.spawn(scripted_actor([], {"r": replies, "late": lambda context: askers.append(context.sender)}), "a")
    reply, given_up = ref.ask(says("r"), block=False), ref.ask(says("late"), block=False)
    heard: list[str] = []
    reply.add_done_callback(lambda: heard.append("a reply"))
    assert not reply.done()
    system.run_until_idle()
    to_the_asker = askers[0]
    assert given_up.cancel()
    assert to_the_asker is not None
    to_the_asker.tell(says("too late"))

    assert reply.done()
    assert heard == ["a reply"]
    with pytest.raises(FutureCancelledError):
        given_up.get()
    assert [letter.message for letter in letters] == [says("too late")]
