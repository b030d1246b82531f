"""A source's splits: each split is assigned once, in order, and never while a snapshot is taken."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from tests.actors.machines.coordinators.coordinating import checkpoint_aborted, checkpoint_completed
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.scheduling.splits import (
    assigns,
    attempt_ended,
    discovered_splits,
    enumerator,
    no_more,
    request_splits,
    reset,
    settled,
)


def test_splits_are_assigned_in_the_order_of_their_discovery() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab"), discovered_splits("c", begun_at="ab"))

    effects = feed(source, request_splits(0, 2), request_splits(1, 2))

    assert effects == [assigns(0, "ab"), assigns(1, "c")]


def test_a_request_waits_until_splits_are_discovered() -> None:
    source = enumerator()

    before = feed(source, request_splits(0))
    after = feed(source, discovered_splits("a"))

    assert before == []
    assert after == [assigns(0, "a")]


def test_waiting_readers_are_served_in_turn_in_request_order() -> None:
    source = enumerator()
    feed(source, request_splits(1, 3), request_splits(0, 3))

    effects = feed(source, discovered_splits("abcde"))

    assert effects == [assigns(1, "ace"), assigns(0, "bd")]


def test_a_discovery_from_an_outdated_position_is_ignored() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab"))

    effects = feed(source, discovered_splits("ab"), request_splits(0, 9))

    assert effects == [
        Ignore(reason="the discovery began at a position that is no longer the source's"),
        assigns(0, "ab"),
    ]


def test_a_reader_is_notified_of_no_more_splits_when_all_are_assigned() -> None:
    source = enumerator()
    feed(source, discovered_splits("a", finished=True))

    effects = feed(source, request_splits(0), request_splits(1), request_splits(0))

    assert effects == [assigns(0, "a"), no_more(1), no_more(0)]


def test_the_last_splits_and_the_end_are_sent_together() -> None:
    source = enumerator()
    feed(source, discovered_splits("a", finished=True))

    effects = feed(source, request_splits(0, 2))

    assert effects == [assigns(0, "a"), no_more(0)]


def test_a_reader_is_notified_once_that_there_are_no_more_splits() -> None:
    source = enumerator()
    feed(source, discovered_splits("", finished=True), request_splits(0))

    effects = feed(source, request_splits(0))

    assert effects == [Ignore(reason="subtask 0 knows that there are no more splits")]


def test_no_reader_is_notified_of_the_end_while_more_splits_may_come() -> None:
    source = enumerator()

    effects = feed(source, request_splits(0), discovered_splits("", finished=False))

    assert effects == []


def test_a_reader_waits_after_a_snapshot_until_it_has_acknowledged_the_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab"))
    source.snapshot(1)

    held_back = feed(source, request_splits(0))
    let_go = feed(source, settled(0, 1))

    assert held_back == []
    assert let_go == [assigns(0, "a")]


def test_a_reader_finished_before_a_snapshot_does_not_wait_after_its_restart() -> None:
    source = enumerator()
    feed(source, discovered_splits("a", finished=True), request_splits(0, 2), attempt_ended(0))
    source.snapshot(1)
    feed(source, checkpoint_completed(1), reset(0, 1))

    effects = feed(source, request_splits(0, attempt=1))

    assert effects == [no_more(0, attempt=1)]


def test_a_new_attempt_gets_no_splits_between_a_snapshot_and_its_barrier() -> None:
    source = enumerator()
    feed(source, attempt_ended(0), discovered_splits("a"))
    source.snapshot(1)

    before_the_barrier = feed(source, request_splits(0, attempt=1))
    behind_it = feed(source, settled(0, 1))

    assert before_the_barrier == []
    assert behind_it == [assigns(0, "a", attempt=1)]


def test_an_attempt_outside_a_checkpoint_waits_until_it_ends() -> None:
    source = enumerator()
    feed(source, attempt_ended(0), discovered_splits("a"))
    source.snapshot(1)
    feed(source, settled(1, 1))

    meanwhile = feed(source, request_splits(0, attempt=1))
    effects = feed(source, checkpoint_completed(1))

    assert meanwhile == []
    assert effects == [assigns(0, "a", attempt=1)]


def test_each_reader_waits_for_its_own_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab"))
    source.snapshot(1)
    feed(source, settled(1, 1))

    effects = feed(source, request_splits(0), request_splits(1))

    assert effects == [assigns(1, "a")]


def test_the_notification_of_no_more_splits_also_waits_for_the_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("", finished=True))
    source.snapshot(1)

    held_back = feed(source, request_splits(0))
    let_go = feed(source, settled(0, 1))

    assert held_back == []
    assert let_go == [no_more(0)]


def test_an_aborted_checkpoint_releases_all_readers() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab"))
    source.snapshot(1)
    feed(source, request_splits(1), request_splits(0))

    effects = feed(source, checkpoint_aborted(1))

    assert effects == [assigns(0, "a"), assigns(1, "b")]


def test_a_reader_waits_for_every_pending_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("a"))
    source.snapshot(1)
    source.snapshot(2)

    after_the_first = feed(source, request_splits(0), settled(0, 1))
    after_the_second = feed(source, settled(0, 2))

    assert after_the_first == []
    assert after_the_second == [assigns(0, "a")]


def test_acknowledging_a_checkpoint_acknowledges_all_earlier_ones() -> None:
    source = enumerator()
    feed(source, discovered_splits("a"))
    source.snapshot(1)
    source.snapshot(2)

    effects = feed(source, request_splits(0), settled(0, 2))

    assert effects == [assigns(0, "a")]


def test_the_end_of_a_checkpoint_without_waiting_requests_sends_no_splits() -> None:
    source = enumerator()

    effects = feed(source, settled(0, 7), checkpoint_aborted(7), checkpoint_completed(7))

    assert effects == [Ignore(reason="no reader waits for checkpoint 7")]
