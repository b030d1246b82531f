"""Exclusive and floating credits: the order in which they are assigned, and their announcement to the sender."""

from __future__ import annotations

import pytest

from flykka.actors.machines.exchange.credits import ChannelCredits, FloatingCredits


def channels(*exclusive: int, floating: int = 0) -> tuple[FloatingCredits, list[ChannelCredits]]:
    pool = FloatingCredits(floating)
    return pool, [ChannelCredits(number, own, pool) for number, own in enumerate(exclusive)]


def test_a_batch_without_a_credit_is_not_accepted() -> None:
    _, (channel,) = channels(1)

    assert channel.spend()
    assert not channel.spend()


def test_an_unannounced_credit_cannot_be_used() -> None:
    _, (channel,) = channels(1, floating=1)
    channel.on_backlog(5)
    channel.spend()

    assert channel.unannounced == 1
    assert not channel.spend()
    assert channel.take_announcement() == 1
    assert channel.spend()


def test_a_backlog_requests_as_many_floating_credits() -> None:
    pool, (channel,) = channels(2, floating=10)

    channel.on_backlog(3)

    assert channel.available == 5
    assert channel.unannounced == 3
    assert pool.free == 7


def test_waiting_channels_get_one_credit_each_in_turn() -> None:
    pool, (holder, first, second) = channels(1, 1, 1, floating=3)
    holder.on_backlog(3)
    holder.take_announcement()
    for _ in range(4):
        holder.spend()
    first.on_backlog(2)
    second.on_backlog(2)

    takers = [holder.give_back() for _ in range(3)]

    assert takers == [first, second, first]
    assert pool.free == 0


def test_a_channel_is_queued_once_however_often_its_backlog_grows() -> None:
    _, (holder, first, second) = channels(1, 1, 1, floating=2)
    holder.on_backlog(2)
    holder.take_announcement()
    for _ in range(3):
        holder.spend()
    first.on_backlog(2)
    first.on_backlog(3)
    second.on_backlog(2)

    assert [holder.give_back(), holder.give_back()] == [first, second]


def test_a_channel_that_needs_no_more_credit_is_skipped() -> None:
    pool, (holder, first, second) = channels(1, 1, 1, floating=1)
    holder.on_backlog(1)
    holder.take_announcement()
    holder.spend()
    first.on_backlog(1)
    second.on_backlog(1)
    first.on_backlog(0)

    assert holder.give_back() is second
    assert pool.free == 0


def test_a_returned_exclusive_credit_replaces_an_unneeded_floating_one() -> None:
    pool, (channel,) = channels(1, floating=1)
    channel.spend()
    channel.on_backlog(0)
    channel.on_backlog(1)
    channel.take_announcement()
    channel.on_backlog(0)

    taker = channel.give_back()

    assert taker is None
    assert channel.available == 1
    assert pool.free == 1


def test_an_ended_channel_passes_its_floating_credits_to_waiting_channels() -> None:
    pool, (ending, waiting) = channels(1, 1, floating=2)
    ending.on_backlog(2)
    waiting.on_backlog(1)

    takers = ending.release()

    assert takers == [waiting]
    assert pool.free == 1
    assert not ending.spend()


def test_a_floating_credit_of_an_ended_channel_returns_after_processing() -> None:
    pool, (channel,) = channels(1, floating=1)
    channel.on_backlog(1)
    channel.take_announcement()
    channel.spend()
    channel.release()

    channel.give_back()

    assert pool.free == 1


@pytest.mark.parametrize(
    ("exclusive", "returned", "is_due"),
    [(1, 1, True), (2, 1, True), (8, 3, False), (8, 4, True), (8, 8, True)],
)
def test_credits_are_announced_when_half_the_exclusive_ones_are_free(
    exclusive: int, returned: int, is_due: bool
) -> None:
    _, (channel,) = channels(exclusive)
    for _ in range(returned):
        channel.spend()

    for _ in range(returned):
        channel.give_back()

    assert channel.is_announcement_due == is_due


def test_a_sender_without_credit_is_notified_of_the_first_credit() -> None:
    _, (channel,) = channels(8)
    for _ in range(8):
        channel.spend()

    channel.give_back()

    assert channel.is_announcement_due


def test_processing_more_batches_than_were_received_is_refused() -> None:
    _, (channel,) = channels(1)

    with pytest.raises(AssertionError, match="more batches processed"):
        channel.give_back()


def test_credits_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="buffers"):
        FloatingCredits(-1)
    with pytest.raises(ValueError, match="exclusive credits"):
        ChannelCredits(0, -1, FloatingCredits(0))
