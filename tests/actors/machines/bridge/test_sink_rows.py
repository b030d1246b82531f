"""Rows of sinks are published with the checkpoint they were staged for, or a later one, and told once."""

from __future__ import annotations

import pytest

from flykka.actors.machines.bridge.sink_rows import SinkRowCounter
from flykka.messages.tasks.stage import SinkRows


@pytest.fixture
def counter() -> SinkRowCounter:
    return SinkRowCounter()


def test_a_commit_publishes_what_was_staged_before_its_barrier(counter: SinkRowCounter) -> None:
    counter.stage(30)
    counter.at_barrier(1)
    counter.stage(12)

    counter.commit(1)

    assert counter.news() == SinkRows(written=42, published=30)


def test_what_a_checkpoint_that_was_given_up_holds_is_published_with_the_next(counter: SinkRowCounter) -> None:
    counter.stage(30)
    counter.at_barrier(1)
    counter.stage(12)
    counter.at_barrier(2)

    counter.commit(2)

    assert counter.news() == SinkRows(written=42, published=42)


def test_rows_that_fire_behind_a_barrier_belong_to_its_checkpoint(counter: SinkRowCounter) -> None:
    counter.stage(1)
    counter.at_barrier(1)
    counter.stage(20)
    counter.stage_for(1, 300)

    counter.commit(1)

    assert counter.news() == SinkRows(written=321, published=301)


def test_rows_that_are_shown_at_once_wait_for_no_checkpoint(counter: SinkRowCounter) -> None:
    counter.show(7)

    assert counter.news() == SinkRows(written=7, published=7)


def test_a_commit_that_comes_twice_publishes_once(counter: SinkRowCounter) -> None:
    counter.stage(30)
    counter.at_barrier(1)

    counter.commit(1)
    counter.commit(1)

    assert counter.news() == SinkRows(written=30, published=30)


def test_what_was_told_is_not_told_again(counter: SinkRowCounter) -> None:
    counter.stage(30)
    counter.at_barrier(1)
    told = counter.news()
    counter.commit(1)

    assert told == SinkRows(written=30)
    assert counter.news() == SinkRows(published=30)
    assert counter.news() is None
