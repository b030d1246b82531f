"""Tests Ctrl-C while Spark starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from flykka.spark_bridge.session.interrupts import DeferredInterrupts


@pytest.fixture(autouse=True)
def handler_of_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_deferred_to_the_previous_handler() -> None:
    events: list[str] = []
    signal.signal(signal.SIGINT, lambda number, frame: events.append("interrupt"))

    with DeferredInterrupts():
        signal.raise_signal(signal.SIGINT)
        events.append("started")

    assert events == ["started", "interrupt"]


def test_a_handler_installed_during_the_start_is_removed() -> None:
    handler = signal.getsignal(signal.SIGINT)

    with DeferredInterrupts() as interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        interrupts.defer()
        deferring = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    assert deferring not in (signal.SIG_DFL, handler)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_interrupt_is_not_deferred() -> None:
    reached: list[str] = []

    def start() -> None:
        with DeferredInterrupts():
            signal.raise_signal(signal.SIGINT)
            reached.append("one")
            signal.raise_signal(signal.SIGINT)
            reached.append("two")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["one"]


def test_an_error_during_the_start_is_not_hidden_by_an_interrupt() -> None:
    def start() -> None:
        with DeferredInterrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("no master")

    with pytest.raises(ValueError, match="no master"):
        start()


def test_ignored_interrupts_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with DeferredInterrupts():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
