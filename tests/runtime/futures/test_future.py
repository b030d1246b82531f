"""Futures: their results, failures and callbacks, and waiting for them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable

import pytest

from flykka.runtime.errors import AskFailedError, AskTimeoutError
from flykka.runtime.futures.future import Future


def test_a_future_keeps_its_first_result() -> None:
    future: Future[int] = Future()

    assert future.try_set(1)
    assert not future.try_set(2)
    future.set(3)

    assert future.get(timeout=0) == 1


def test_a_future_is_not_iterable() -> None:
    assert not isinstance(Future[int](), Iterable)
    with pytest.raises(TypeError):
        iter(Future[int]())  # type: ignore[call-overload]


def test_a_wait_ends_at_its_timeout() -> None:
    with pytest.raises(AskTimeoutError):
        Future[int]().get(timeout=0.001)


def test_an_interrupt_takes_effect_without_waking_the_main_thread() -> None:
    main = threading.get_ident()
    heard = threading.Event()

    def interrupt() -> None:
        while sys._current_frames()[main].f_code.co_name != "_acquire":
            os.sched_yield()
        # A signal to this thread does not wake the main thread, nor does a signal that arrives just before the main
        # thread sleeps.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        heard.wait()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Future[int]().get(timeout=60)
    waited = time.monotonic() - begun
    heard.set()
    interrupting.join()

    assert waited < 30


def test_a_waiting_thread_is_woken() -> None:
    future: Future[int] = Future()
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(future.get(timeout=5)))
    thread.start()

    future.set(4)
    thread.join(5)

    assert got == [4]


def test_callbacks_run_once_and_late_ones_run_immediately() -> None:
    future: Future[int] = Future()
    calls: list[str] = []
    future.add_done_callback(lambda: calls.append("early"))

    future.set(1)
    future.add_done_callback(lambda: calls.append("late"))

    assert calls == ["early", "late"]


def test_a_failing_callback_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()
    calls: list[str] = []
    future.add_done_callback(lambda: 1 / 0)
    future.add_done_callback(lambda: calls.append("second"))

    future.set(1)

    assert calls == ["second"]
    assert "a callback of a future failed" in caplog.text


def test_map_is_computed_once_even_if_it_fails() -> None:
    calls: list[int] = []

    def explode(value: int) -> int:
        calls.append(value)
        raise ValueError("no")

    future: Future[int] = Future()
    mapped = future.map(explode)
    future.set(1)

    for _ in range(2):
        with pytest.raises(AskFailedError, match="no"):
            mapped.get(timeout=0)
    assert calls == [1]


def test_join_filter_and_reduce_apply_to_later_results() -> None:
    first: Future[int] = Future()
    second: Future[int] = Future()
    joined = first.join(second)
    odd = joined.filter(lambda value: value % 2 == 1)
    total = joined.reduce(lambda left, right: left + right, 10)

    second.set(2)
    assert not joined.done()
    first.set(1)

    assert joined.get(timeout=0) == [1, 2]
    assert odd.get(timeout=0) == [1]
    assert total.get(timeout=0) == 13


def test_a_failure_propagates_to_derived_futures() -> None:
    future: Future[int] = Future()
    mapped = future.map(lambda value: value + 1)
    try:
        raise LookupError("gone")
    except LookupError:
        future.set_exception()

    with pytest.raises(AskFailedError, match="gone") as failed:
        mapped.get(timeout=0)
    assert failed.value.failure.type_name == "LookupError"
