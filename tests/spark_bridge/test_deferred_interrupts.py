"""Tests Ctrl-C while Spark starts."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from flykka.spark_bridge.session.session import DeferredInterrupts


@pytest.fixture(autouse=True)
def handler_of_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_and_then_comes_to_the_handler_that_was_there() -> None:
    heard: list[str] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append("interrupt"))

    with DeferredInterrupts():
        signal.raise_signal(signal.SIGINT)
        heard.append("started")

    assert heard == ["started", "interrupt"]


def test_a_handler_that_another_installs_meanwhile_is_taken_away_again() -> None:
    handler = signal.getsignal(signal.SIGINT)

    with DeferredInterrupts() as interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        interrupts.defer()
        deferring = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    assert deferring not in (signal.SIG_DFL, handler)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_interrupt_does_not_wait() -> None:
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


def test_what_was_raised_meanwhile_is_not_hidden_by_an_interrupt() -> None:
    def start() -> None:
        with DeferredInterrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("no master")

    with pytest.raises(ValueError, match="no master"):
        start()


def test_who_ignores_interrupts_is_not_interrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with DeferredInterrupts():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
