"""A source's splits after the failure of one or all readers: from any checkpoint each split is read once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.sources.source_events import SplitEnumeratorEffect, SplitEnumeratorEvent
from flykka.messages.tasks.source import AddSplits, SplitEnumeratorState, UnreadSplit
from flykka.messages.wire import codec
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import SplitId, vertex_subtask_and_number
from tests.actors.machines.coordinators.coordinating import checkpoint_aborted, checkpoint_completed
from tests.actors.machines.graph.graphs import JOB
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.scheduling.splits import (
    assigns,
    attempt_ended,
    discovered_splits,
    enumerator,
    file_split,
    no_more,
    request_splits,
    reset,
    settled,
)


def test_splits_assigned_after_the_snapshot_are_reassigned_after_a_restore() -> None:
    source = enumerator()
    feed(source, discovered_splits("abc"), request_splits(0, 1))
    checkpoint = source.snapshot(1)
    feed(source, settled(0, 1), settled(1, 1), request_splits(1, 1))

    source.restore(checkpoint)
    effects = feed(source, request_splits(0, 9))

    assert effects == [assigns(0, "bc")]


def test_without_a_checkpoint_the_source_is_discovered_from_its_beginning() -> None:
    source = enumerator()
    feed(source, discovered_splits("abc", finished=True), request_splits(0, 2), request_splits(1, 1))

    source.restore(None)

    assert source.position == b""
    assert not source.discovery_finished
    assert feed(source, request_splits(1, 9), discovered_splits("abc")) == [assigns(1, "abc")]


def test_splits_discovered_after_the_snapshot_are_discovered_again() -> None:
    source = enumerator()
    feed(source, discovered_splits("a"))
    checkpoint = source.snapshot(1)
    feed(source, discovered_splits("bc", begun_at="a", finished=True), settled(0, 1), request_splits(0, 3))

    source.restore(checkpoint)
    effects = feed(source, request_splits(0, 9), discovered_splits("bc", begun_at="a", finished=True))

    assert effects == [assigns(0, "a"), assigns(0, "bc"), no_more(0)]


def test_a_new_job_master_resumes_the_source_from_the_checkpoint() -> None:
    former = enumerator()
    feed(former, discovered_splits("abc", finished=True), request_splits(0, 1))
    checkpoint = former.snapshot(1)

    source = enumerator()
    source.restore(checkpoint)
    effects = feed(source, request_splits(0, 9))

    assert source.discovery_finished
    assert source.position == b"abc"
    assert effects == [assigns(0, "bc"), no_more(0)]


def test_the_state_size_does_not_depend_on_the_number_of_splits_read() -> None:
    source = enumerator()
    sizes = []

    for number in range(200):
        names = "".join(chr(ord("a") + letter) for letter in range(26))
        feed(
            source,
            discovered_splits(names, begun_at=str(number or ""), position=str(number + 1)),
            request_splits(0, 26),
        )
        sizes.append(len(source.snapshot(number)))
        feed(source, settled(0, number), settled(1, number), checkpoint_completed(number))

    assert max(sizes) - min(sizes) < 10


def test_state_with_split_names_is_refused() -> None:
    source = enumerator()

    with pytest.raises(DecodeError, match="has an old format, a list of splits"):
        source.restore(codec.encode(SplitEnumeratorState(assigned=(SplitId("a"),))))


def test_an_ended_attempt_gets_no_splits() -> None:
    source = enumerator()
    feed(source, request_splits(0, 2), attempt_ended(0))

    effects = feed(source, discovered_splits("ab"), request_splits(0), request_splits(1))

    assert effects == [Ignore(reason="attempt 0 of subtask 0 has ended"), assigns(1, "a")]


def test_a_request_of_an_earlier_attempt_is_ignored() -> None:
    source = enumerator()
    feed(source, request_splits(0, attempt=2), discovered_splits("ab"))

    effects = feed(source, request_splits(0, attempt=1), attempt_ended(0, 1), request_splits(0, attempt=2))

    assert effects == [
        Ignore(reason="attempt 1 of subtask 0 has ended"),
        Ignore(reason="attempt 1 of subtask 0 had ended"),
        assigns(0, "b", attempt=2),
    ]


def test_a_new_attempt_does_not_inherit_requests_of_the_previous_one() -> None:
    source = enumerator()
    feed(source, request_splits(0, 5), attempt_ended(0), request_splits(0, attempt=1))

    effects = feed(source, discovered_splits("ab"))

    assert effects == [assigns(0, "a", attempt=1)]


def test_a_restarted_subtask_returns_its_splits_since_the_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("abcdef"), request_splits(0, 1), request_splits(1, 1))
    source.snapshot(1)
    feed(source, settled(0, 1), settled(1, 1), checkpoint_completed(1), request_splits(0, 2), request_splits(1, 1))

    at_its_end = feed(source, attempt_ended(0), reset(0, 1))
    effects = feed(source, request_splits(0, 3, attempt=1))

    assert at_its_end == []
    assert effects == [assigns(0, "cdf", 2, 3, 5, attempt=1)]


def test_the_splits_of_an_aborted_checkpoint_are_returned() -> None:
    source = enumerator()
    feed(source, discovered_splits("abc"), request_splits(0, 1))
    source.snapshot(1)
    feed(source, checkpoint_aborted(1), request_splits(0, 1))

    feed(source, attempt_ended(0), reset(0, None))
    effects = feed(source, request_splits(0, 3, attempt=1))

    assert effects == [assigns(0, "abc", 0, 1, 2, attempt=1)]


def test_returned_splits_of_a_subtask_are_reserved_while_others_read() -> None:
    source = enumerator()
    feed(source, discovered_splits("abcd"), request_splits(0, 2), request_splits(1, 1))

    feed(source, attempt_ended(0), reset(0, None))
    of_the_other = feed(source, request_splits(1, 9))
    of_the_next = feed(source, request_splits(0, 9, attempt=1), discovered_splits("e", begun_at="abcd"))

    # The other reader's event time has passed the rows of "a" and "b", which would be late if it read them.
    assert of_the_other == [assigns(1, "d", 3)]
    assert of_the_next == [assigns(0, "ab", 0, 1, attempt=1), assigns(1, "e", 4)]


def test_splits_reserved_for_a_subtask_are_unassigned_in_the_next_checkpoint() -> None:
    source = enumerator()
    feed(source, discovered_splits("abc", finished=True), request_splits(0, 2))
    feed(source, attempt_ended(0), reset(0, None))

    checkpoint = source.snapshot(1)
    later = enumerator()
    later.restore(checkpoint)

    assert feed(later, request_splits(1, 9)) == [assigns(1, "abc", 2, 3, 4), no_more(1)]


def test_a_reader_is_not_notified_of_the_end_while_splits_are_reserved() -> None:
    source = enumerator()
    feed(source, discovered_splits("ab", finished=True), request_splits(0, 1), request_splits(1, 1))

    feed(source, attempt_ended(0), reset(0, None))
    effects = feed(source, request_splits(1, 1), request_splits(0, 1, attempt=1), request_splits(0, 1, attempt=1))

    assert effects == [no_more(1), assigns(0, "a", 0, attempt=1), no_more(0, attempt=1)]


def test_a_restarted_subtask_is_notified_again_that_there_are_no_more_splits() -> None:
    source = enumerator()
    feed(source, discovered_splits("", finished=True), request_splits(0), attempt_ended(0))

    effects = feed(source, reset(0, None), request_splits(0, attempt=1))

    assert effects == [no_more(0, attempt=1)]


def test_readers_from_before_a_restore_get_no_splits() -> None:
    source = enumerator()
    feed(source, request_splits(0, 5))
    source.snapshot(1)

    source.restore(None)
    effects = feed(source, discovered_splits("a"), request_splits(1))

    assert effects == [assigns(1, "a")]


def test_state_of_an_unknown_format_is_refused() -> None:
    source = enumerator()

    with pytest.raises(DecodeError, match="cannot be restored from a UnreadSplit"):
        source.restore(codec.encode(UnreadSplit(split=file_split("a"), number=0)))


class SplitsAreReadOnce(RuleBasedStateMachine):
    """A source whose readers take part in overlapping checkpoints. Readers crash, one by one or all together, and
    resume from the last completed checkpoint.

    `held` contains the splits of each reader. A reader's part of a checkpoint is taken at its barrier. In any order of
    events, a checkpoint's snapshot and the readers' parts contain every known split exactly once.
    """

    subtasks = st.integers(0, 1)

    @initialize()
    def begin(self) -> None:
        self.source = enumerator()
        self.held: list[list[SplitId]] = [[], []]
        self.pending: dict[int, tuple[bytes, dict[int, list[SplitId]]]] = {}
        self.completed: tuple[bytes | None, list[list[SplitId]]] = (None, [[], []])
        self.completed_id: int | None = None
        self.known = 0
        self.attempts = [0, 0]
        self.last_checkpoint = 0

    def feed(self, event: SplitEnumeratorEvent) -> None:
        for effect in self.source.handle(event, 0):
            self.perform(effect)

    def perform(self, effect: SplitEnumeratorEffect) -> None:
        if isinstance(effect, Tell) and isinstance(effect.message, AddSplits):
            _, subtask, _ = vertex_subtask_and_number(effect.message.attempt, JOB)
            self.held[subtask] += [each.split_id for each in effect.message.splits]

    @rule(count=st.integers(1, 3))
    def find(self, count: int) -> None:
        self.known += count
        self.look()

    def look(self) -> None:
        begun_at = self.source.position
        splits = tuple(file_split(f"s{number}") for number in range(int(begun_at or b"0"), self.known))
        reached = b"%d" % self.known
        self.feed(replace(discovered_splits(""), splits=splits, begun_at=begun_at, position=reached))

    @rule(subtask=subtasks, count=st.integers(1, 3))
    def ask(self, subtask: int, count: int) -> None:
        self.feed(request_splits(subtask, count, self.attempts[subtask]))

    @rule()
    def trigger(self) -> None:
        self.last_checkpoint += 1
        self.pending[self.last_checkpoint] = (self.source.snapshot(self.last_checkpoint), {})

    @rule(subtask=subtasks)
    def acknowledge(self, subtask: int) -> None:
        for checkpoint_id, (data, parts) in self.pending.items():
            if subtask not in parts:
                parts[subtask] = list(self.held[subtask])
                self.feed(settled(subtask, checkpoint_id))
                if len(parts) == 2:
                    self.complete(checkpoint_id, data, parts)
                return

    def complete(self, checkpoint_id: int, data: bytes, parts: dict[int, list[SplitId]]) -> None:
        self.pending = {each: pending for each, pending in self.pending.items() if each > checkpoint_id}
        self.completed = (data, [parts[0], parts[1]])
        self.completed_id = checkpoint_id
        self.feed(checkpoint_completed(checkpoint_id))

    @rule()
    def abort_the_oldest(self) -> None:
        if self.pending:
            checkpoint_id = next(iter(self.pending))
            del self.pending[checkpoint_id]
            self.feed(checkpoint_aborted(checkpoint_id))

    @rule()
    def crash(self) -> None:
        data, parts = self.completed
        for subtask in range(2):
            self.feed(attempt_ended(subtask, self.attempts[subtask]))
        self.pending.clear()
        self.held = [list(part) for part in parts]
        self.attempts = [attempt + 1 for attempt in self.attempts]
        self.source.restore(data)
        self.look()

    @rule(subtask=subtasks)
    def crash_one(self, subtask: int) -> None:
        self.feed(attempt_ended(subtask, self.attempts[subtask]))
        for checkpoint_id in self.pending:
            self.feed(checkpoint_aborted(checkpoint_id))
        self.pending.clear()
        self.attempts[subtask] += 1
        self.held[subtask] = list(self.completed[1][subtask])
        self.feed(reset(subtask, self.completed_id))

    @invariant()
    def no_split_is_held_twice(self) -> None:
        self.source.check()
        held = self.held[0] + self.held[1]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        self.crash()
        self.feed(request_splits(0, 1_000_000, self.attempts[0]))
        assert sorted(self.held[0] + self.held[1]) == sorted(f"s{number}" for number in range(self.known))


TestSplitsAreReadOnce = pytest.mark.slow(SplitsAreReadOnce.TestCase)
