"""A source is woken up once per change, and only while a reader needs splits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from flykka.actors.job_master.operator_coordinator_handler import DiscoveryWatch

LONG_MS = 60_000


def wait_over() -> None:
    for thread in threading.enumerate():
        if thread.name == "flykka-discovery":
            thread.join(10)
            assert not thread.is_alive(), "a source is still watched"


class Source:
    def __init__(self, *, is_needed: Callable[[], bool] = lambda: True) -> None:
        self.woken = threading.Semaphore(0)
        self.looked = threading.Semaphore(0)
        self.watch = DiscoveryWatch(self.woken.release, is_needed)

    def looks(self, *, changed: bool) -> Callable[[], bool]:
        def look() -> bool:
            self.looked.release()
            return changed

        return look


def test_a_source_is_woken_up_once_per_change() -> None:
    source = Source()

    source.watch.begin(source.looks(changed=True), LONG_MS)
    wait_over()

    assert source.woken.acquire(blocking=False)
    assert not source.woken.acquire(blocking=False)


def test_an_ended_watch_does_not_wake_a_source() -> None:
    source = Source()
    source.watch.begin(source.looks(changed=False), LONG_MS)
    assert source.looked.acquire(timeout=10)

    source.watch.end()
    wait_over()

    assert not source.woken.acquire(blocking=False)


def test_a_source_that_has_ended_or_is_discovering_is_not_woken_up() -> None:
    ended, late = Source(is_needed=lambda: False), Source()

    ended.watch.begin(ended.looks(changed=True), LONG_MS)
    late.watch.begin(late.looks(changed=True), 0)
    wait_over()

    assert not ended.woken.acquire(blocking=False)
    assert not late.woken.acquire(blocking=False)


def test_a_failed_discovery_is_logged_and_retried_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()

    def look() -> bool:
        raise PermissionError("/data/orders may not be listed")

    source.watch.begin(look, LONG_MS)
    wait_over()

    (record,) = caplog.records
    assert record.getMessage() == "a source is not watched until its next discovery: /data/orders may not be listed"
    assert not source.woken.acquire(blocking=False)
    source.watch.begin(source.looks(changed=True), LONG_MS)
    wait_over()
    assert source.woken.acquire(blocking=False)


def test_ending_a_watch_that_never_started_is_allowed() -> None:
    source = Source()

    source.watch.end()

    assert not source.woken.acquire(blocking=False)
