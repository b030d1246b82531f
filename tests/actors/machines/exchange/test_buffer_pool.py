"""A pool of buffers grants requests, queues waiters, and gives up excess buffers when it shrinks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.errors import BufferPoolDestroyedError
from flykka.actors.machines.exchange.buffer_pool import LocalBufferPool, NotificationResult


class Waiting:
    def __init__(self, wants: int = 1) -> None:
        self.wants = wants
        self.got = 0
        self.is_notified_of_the_end = False

    def buffer_available(self) -> NotificationResult:
        if self.wants == 0:
            return NotificationResult.BUFFER_NOT_USED
        self.wants -= 1
        self.got += 1
        if self.wants:
            return NotificationResult.BUFFER_USED_NEED_MORE
        return NotificationResult.BUFFER_USED_NO_NEED_FOR_MORE

    def buffer_pool_destroyed(self) -> None:
        self.is_notified_of_the_end = True


def pool(size: int, **options: int | None) -> LocalBufferPool[Waiting]:
    return LocalBufferPool[Waiting](size, **options)  # type: ignore[arg-type]


def drained(size: int) -> LocalBufferPool[Waiting]:
    empty = pool(size)
    empty.take_up_to(size)
    return empty


def test_a_pool_grants_as_many_buffers_as_its_size() -> None:
    two = pool(2)

    assert [two.request_buffer(), two.request_buffer(), two.request_buffer()] == [True, True, False]
    assert not two.is_available


def test_a_recycled_buffer_goes_to_the_next_listener() -> None:
    empty = drained(1)
    first, second = Waiting(), Waiting()
    empty.wait(first)
    empty.wait(second)

    assert empty.give_back() is first
    assert empty.give_back() is second
    assert (first.got, second.got) == (1, 1)


def test_a_listener_that_needs_more_buffers_is_queued_again() -> None:
    empty = drained(3)
    greedy, modest = Waiting(2), Waiting(1)
    empty.wait(greedy)
    empty.wait(modest)

    assert [empty.give_back() for _ in range(3)] == [greedy, modest, greedy]


def test_a_listener_that_needs_no_more_buffers_is_skipped() -> None:
    empty = drained(1)
    content, waiting = Waiting(0), Waiting()
    empty.wait(content)
    empty.wait(waiting)

    assert empty.give_back() is waiting


def test_no_listener_is_registered_if_a_buffer_is_available() -> None:
    used_once = pool(1)
    used_once.request_buffer()
    used_once.give_back()

    assert not used_once.wait(Waiting())


def test_a_shrinking_pool_returns_idle_buffers_at_once_and_others_when_recycled() -> None:
    shrinking = drained(4)
    shrinking.give_back()

    shrinking.resize(2)
    held = [shrinking.held]
    shrinking.give_back()
    held.append(shrinking.held)
    shrinking.give_back()

    assert held == [3, 2]
    assert (shrinking.held, shrinking.idle) == (2, 1)


def test_a_growing_pool_serves_its_waiters() -> None:
    growing = drained(1)
    first, second = Waiting(), Waiting()
    growing.wait(first)
    growing.wait(second)

    assert growing.resize(2) == [first]
    assert growing.resize(5) == [second]
    assert growing.free == 2


def test_a_destroyed_pool_notifies_waiters_and_grants_no_buffers() -> None:
    ended = drained(1)
    waiting = Waiting()
    ended.wait(waiting)

    ended.destroy()
    ended.give_back()

    assert waiting.is_notified_of_the_end
    assert (waiting.got, ended.held, ended.wait(Waiting())) == (0, 0, False)
    with pytest.raises(BufferPoolDestroyedError):
        ended.request_buffer()
    with pytest.raises(BufferPoolDestroyedError):
        ended.resize(2)


@pytest.mark.parametrize(("size", "minimum", "maximum"), [(1, 2, None), (1, -1, None), (3, 3, 2)])
def test_a_pool_size_is_clamped_between_minimum_and_maximum(size: int, minimum: int, maximum: int | None) -> None:
    with pytest.raises(ValueError, match="buffers"):
        pool(size, minimum=minimum, maximum=maximum)


def test_a_pool_stays_between_its_minimum_and_maximum() -> None:
    bounded = pool(2, minimum=2, maximum=3)

    bounded.resize(10)

    assert bounded.size == 3
    with pytest.raises(ValueError, match="at least 2"):
        bounded.resize(1)


def test_a_buffer_cannot_be_recycled_twice() -> None:
    with pytest.raises(AssertionError, match="twice"):
        pool(1).give_back()


@given(st.integers(0, 5), st.lists(st.sampled_from(["take", "back", "wait", "grow", "shrink"])))
def test_no_sequence_of_events_leaves_idle_buffers_beyond_the_pool_size(size: int, words: list[str]) -> None:
    tried = pool(size)
    for word in words:
        match word:
            case "take":
                tried.request_buffer()
            case "back" if tried.used:
                tried.give_back()
            case "wait":
                tried.wait(Waiting())
            case "grow":
                tried.resize(tried.size + 1)
            case "shrink":
                tried.resize(max(tried.size - 1, 0))
        tried.check()
