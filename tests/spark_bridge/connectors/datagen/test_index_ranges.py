"""Tests that a generated source emits the rows that are due at the current time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flykka.messages.tasks.source import IndexRangeSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.connectors.datagen import DataGenSource, IndexRangeDiscovery, sequence
from flykka.spark_bridge.errors import SourceError


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


def sequence_source(rows: int | None, rate: float | None = None, batch: int = 10) -> DataGenSource:
    return DataGenSource({"id": sequence()}, number_of_rows=rows, rows_per_second=rate, rows_per_batch=batch)


def discovery(made: DataGenSource, clock: Clock) -> IndexRangeDiscovery:
    return IndexRangeDiscovery(made, OperatorId("source"), clock)


def ranges(discovered: SplitsDiscovered) -> list[tuple[int, int]]:
    splits = [split for split in discovered.splits if isinstance(split, IndexRangeSplit)]
    return [(split.start, split.start + split.rows) for split in splits]


def test_all_rows_are_due_at_the_first_discovery_without_a_rate() -> None:
    look = discovery(sequence_source(25), Clock())

    discovered = look.discover(b"")

    assert ranges(discovered) == [(0, 10), (10, 20), (20, 25)]
    assert discovered.finished
    assert look.interval_ms is None


def test_many_rows_take_several_discoveries() -> None:
    look = discovery(sequence_source(1000, batch=2), Clock())

    first = look.discover(b"")
    second = look.discover(first.position)

    assert (len(first.splits), first.more, first.finished) == (256, True, False)
    assert (ranges(second)[0], ranges(second)[-1]) == ((512, 514), (998, 1000))
    assert (second.more, second.finished) == (False, True)


def test_rows_become_due_over_time_with_a_rate() -> None:
    clock = Clock()
    look = discovery(sequence_source(25, rate=5), clock)

    before = look.discover(b"")
    clock.seconds += 1
    first = look.discover(before.position)
    clock.seconds += 2.5
    second = look.discover(first.position)
    clock.seconds += 60
    last = look.discover(second.position)

    assert [ranges(discovered) for discovered in (before, first, second, last)] == [
        [],
        [(0, 5)],
        [(5, 15), (15, 17)],
        [(17, 25)],
    ]
    assert [discovered.finished for discovered in (before, first, second, last)] == [False, False, False, True]


def test_due_rows_are_discovered_once() -> None:
    clock = Clock()
    look = discovery(sequence_source(None, rate=5), clock)
    look.discover(b"")
    clock.seconds += 1
    discovered = look.discover(b"")

    again = look.discover(discovered.position)

    assert again.splits == ()


def test_an_unbounded_source_never_finishes() -> None:
    clock = Clock()
    look = discovery(sequence_source(None, rate=1e6, batch=10**9), clock)
    look.discover(b"")
    clock.seconds += 3600

    discovered = look.discover(b"")

    assert ranges(discovered)[-1][1] == 3_600_000_000
    assert not discovered.finished


def test_a_discovery_finds_only_rows_readable_before_the_next_discovery() -> None:
    clock = Clock()
    look = discovery(sequence_source(None, rate=1e9, batch=1), clock)
    look.discover(b"")
    clock.seconds += 1

    assert len(look.discover(b"").splits) == 1000


def test_a_restored_source_resumes_after_the_highest_assigned_row() -> None:
    clock = Clock()
    restored = discovery(sequence_source(None, rate=5), clock)

    before = restored.discover(b"17")
    clock.seconds += 1
    discovered = restored.discover(b"17")

    assert before.splits == ()
    assert ranges(discovered) == [(17, 22)]


def test_a_position_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(SourceError, match="in the checkpoint is b'seven', which is not a number"):
        discovery(sequence_source(25), Clock()).discover(b"seven")


def test_a_source_with_fewer_rows_than_its_position_is_finished() -> None:
    discovered = discovery(sequence_source(25), Clock()).discover(b"40")

    assert (discovered.splits, discovered.finished, discovered.position) == ((), True, b"40")


def test_a_restored_bounded_source_emits_its_remaining_rows() -> None:
    discovered = discovery(sequence_source(25), Clock()).discover(b"10")

    assert ranges(discovered) == [(10, 20), (20, 25)]
    assert discovery(sequence_source(25), Clock()).discover(b"25").finished


@pytest.mark.parametrize(("rate", "batch", "interval_ms"), [(1, 10, 1000), (100, 50, 500), (1e6, 10, 100)])
def test_discoveries_are_about_as_frequent_as_full_batches(rate: float, batch: int, interval_ms: int) -> None:
    assert discovery(sequence_source(None, rate=rate, batch=batch), Clock()).interval_ms == interval_ms


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (lambda: sequence_source(0), "number of rows must be at least 1, not 0"),
        (lambda: sequence_source(-1), "number of rows must be at least 1, not -1"),
        (lambda: sequence_source(None), "needs rows_per_second"),
        (lambda: sequence_source(1, rate=0), "rows per second must be above 0, not 0"),
        (lambda: sequence_source(1, rate=float("nan")), "rows per second must be above 0, not nan"),
        (lambda: sequence_source(1, batch=0), "rows per batch must be at least 1, not 0"),
        (lambda: DataGenSource({}, number_of_rows=1), "at least one field"),
    ],
)
def test_invalid_row_counts_and_rates_are_refused(made: object, wrong: str) -> None:
    assert callable(made)
    with pytest.raises(ValueError, match=wrong):
        made()
