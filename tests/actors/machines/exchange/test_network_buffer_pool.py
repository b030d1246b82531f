"""The buffers of a TaskManager: each pool is guaranteed its minimum, and spare buffers are shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.errors import BufferPoolDestroyedError, NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.shuffle_environment import NetworkBufferPool


def sizes(buffers: NetworkBufferPool) -> list[int]:
    return [pool.size for pool in buffers.pools]


def test_a_single_pool_may_have_all_buffers() -> None:
    buffers = NetworkBufferPool(10)

    assert buffers.create_pool(1).size == 10


def test_spare_buffers_are_shared_in_proportion_to_each_pools_maximum() -> None:
    buffers = NetworkBufferPool(12)

    buffers.create_pool(2, 4)
    buffers.create_pool(2, 10)

    assert sizes(buffers) == [3, 9]


def test_pools_with_their_maximum_keep_it_without_another_notification() -> None:
    buffers = NetworkBufferPool(100)
    first = buffers.create_pool(1, 3)

    buffers.create_pool(2, 5)

    assert (first.last_size, sizes(buffers)) == (3, [3, 5])
    assert buffers.is_settled
    assert buffers.take_resized() == ()


def test_a_new_pool_takes_buffers_from_others_until_it_ends() -> None:
    buffers = NetworkBufferPool(10)
    first = buffers.create_pool(1)
    second = buffers.create_pool(1)
    together = sizes(buffers)
    buffers.take_resized()

    buffers.destroy_pool(second)

    assert together == [5, 5]
    assert buffers.take_resized() == (first,)
    assert first.size == 10


def test_a_pool_whose_minimum_is_unavailable_is_refused_with_the_figures() -> None:
    buffers = NetworkBufferPool(10)
    buffers.create_pool(7)

    with pytest.raises(NetworkBuffersExhaustedError) as refused:
        buffers.create_pool(4)

    assert "required 4, but only 3 available" in str(refused.value)
    assert "currently set to 10" in str(refused.value)
    assert len(buffers.pools) == 1


def test_exclusive_buffers_are_taken_from_the_spare_buffers() -> None:
    buffers = NetworkBufferPool(10)
    pool = buffers.create_pool(2)

    taken = buffers.take_exclusive(5)

    assert (taken, pool.size, buffers.free) == (5, 5, 5)
    buffers.give_back_exclusive(5)
    assert (pool.size, buffers.free) == (10, 10)


def test_a_pool_shrinks_to_make_room_for_exclusive_buffers() -> None:
    buffers = NetworkBufferPool(4)
    pool = buffers.create_pool(1)
    pool.take_up_to(4)

    taken = buffers.take_exclusive(2)
    for _ in range(3):
        pool.give_back()

    assert taken == 0
    assert (pool.size, pool.held, buffers.free) == (2, 2, 0)


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_exclusive_buffer_is_required(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        NetworkBufferPool(1).take_exclusive(count)


def test_destroying_a_pool_twice_is_allowed() -> None:
    buffers = NetworkBufferPool(4)
    pool = buffers.create_pool(2)

    buffers.destroy_pool(pool)
    buffers.destroy_pool(pool)

    assert buffers.promised == 0


def test_a_closed_buffer_pool_creates_no_pools_and_drops_returned_buffers() -> None:
    buffers = NetworkBufferPool(4)
    pool = buffers.create_pool(1)
    pool.request_buffer()

    buffers.destroy()
    buffers.destroy_pool(pool)
    pool.give_back()

    assert buffers.free == 0
    with pytest.raises(BufferPoolDestroyedError):
        buffers.create_pool(1)


@given(
    st.integers(0, 40),
    st.lists(st.tuples(st.sampled_from(["create", "destroy", "take", "back"]), st.integers(0, 9), st.integers(0, 9))),
)
def test_under_any_events_every_pool_has_its_minimum_within_the_total(
    total: int, words: list[tuple[str, int, int]]
) -> None:
    buffers = NetworkBufferPool(total)
    for word, first, second in words:
        pools = buffers.pools
        match word:
            case "create" if first <= total - buffers.promised:
                buffers.create_pool(first, first + second if second else None)
            case "destroy" if pools and not pools[first % len(pools)].used:
                buffers.destroy_pool(pools[first % len(pools)])
            case "take" if pools:
                pools[first % len(pools)].request_buffer()
            case "back" if pools and pools[first % len(pools)].used:
                pools[first % len(pools)].give_back()
        buffers.check()
        assert all(pool.size >= pool.minimum for pool in buffers.pools)
        assert sum(pool.held for pool in buffers.pools) + buffers.free == total
