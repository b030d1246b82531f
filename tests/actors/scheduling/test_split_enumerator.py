"""A source's splits: each goes out once per history, in order, and never across a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.split_enumerator import (
    AssignSplits,
    CheckpointGivenUp,
    SignalNoMoreSplits,
    SplitEnumerator,
    SplitEnumeratorEffect,
    SplitEnumeratorEvent,
    SplitsFound,
    SplitsRequested,
    SubtaskSettled,
)
from flykka.messages import codec
from flykka.messages.errors import DecodeError
from flykka.messages.ids import SplitId
from flykka.messages.source import FileSplit, SplitReaderState
from tests.actors.scheduling.feeding import feed


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def found(names: str, *, finished: bool = False) -> SplitsFound:
    return SplitsFound(splits=tuple(split(name) for name in names), finished=finished)


def asks(subtask: int, count: int = 1) -> SplitsRequested:
    return SplitsRequested(subtask=subtask, count=count)


def assigns(subtask: int, names: str) -> AssignSplits:
    return AssignSplits(subtask=subtask, splits=tuple(split(name) for name in names))


def settled(subtask: int, checkpoint_id: int) -> SubtaskSettled:
    return SubtaskSettled(subtask=subtask, checkpoint_id=checkpoint_id)


def enumerator(parallelism: int = 2) -> SplitEnumerator:
    return SplitEnumerator(parallelism=parallelism)


def test_splits_go_out_in_the_order_in_which_they_were_found() -> None:
    source = enumerator()
    feed(source, found("ab"), found("c"))

    effects = feed(source, asks(0, 2), asks(1, 2))

    assert effects == [assigns(0, "ab"), assigns(1, "c")]


def test_a_request_waits_for_splits_to_be_found() -> None:
    source = enumerator()

    before = feed(source, asks(0))
    after = feed(source, found("a"))

    assert before == []
    assert after == [assigns(0, "a")]


def test_waiting_readers_are_served_in_turns_the_first_to_ask_first() -> None:
    source = enumerator()
    feed(source, asks(1, 3), asks(0, 3))

    effects = feed(source, found("abcde"))

    assert effects == [assigns(1, "ace"), assigns(0, "bd")]


def test_what_is_found_twice_is_handed_out_once() -> None:
    source = enumerator()
    feed(source, found("ab"), asks(0, 1))

    effects = feed(source, found("abc"), asks(0, 9))

    assert effects == [assigns(0, "bc")]


def test_a_reader_is_told_that_there_is_no_more_when_all_is_found_and_handed_out() -> None:
    source = enumerator()
    feed(source, found("a", finished=True))

    effects = feed(source, asks(0), asks(1), asks(0))

    assert effects == [assigns(0, "a"), SignalNoMoreSplits(subtask=1), SignalNoMoreSplits(subtask=0)]


def test_the_last_splits_and_the_end_come_together() -> None:
    source = enumerator()
    feed(source, found("a", finished=True))

    effects = feed(source, asks(0, 2))

    assert effects == [assigns(0, "a"), SignalNoMoreSplits(subtask=0)]


def test_a_reader_is_told_once_that_there_is_no_more() -> None:
    source = enumerator()
    feed(source, found("", finished=True), asks(0))

    effects = feed(source, asks(0))

    assert effects == [Ignore(reason="subtask 0 knows that there is no more")]


def test_while_more_may_come_nobody_is_told_that_there_is_no_more() -> None:
    source = enumerator()

    effects = feed(source, asks(0), found("", finished=False))

    assert effects == []


def test_behind_a_snapshot_a_reader_waits_until_it_has_settled_the_checkpoint() -> None:
    source = enumerator()
    feed(source, found("ab"))
    source.snapshot(1)

    held_back = feed(source, asks(0))
    let_go = feed(source, settled(0, 1))

    assert held_back == []
    assert let_go == [assigns(0, "a")]


def test_readers_wait_each_for_themselves() -> None:
    source = enumerator()
    feed(source, found("ab"))
    source.snapshot(1)
    feed(source, settled(1, 1))

    effects = feed(source, asks(0), asks(1))

    assert effects == [assigns(1, "a")]


def test_the_end_of_the_splits_is_held_back_too() -> None:
    source = enumerator()
    feed(source, found("", finished=True))
    source.snapshot(1)

    held_back = feed(source, asks(0))
    let_go = feed(source, settled(0, 1))

    assert held_back == []
    assert let_go == [SignalNoMoreSplits(subtask=0)]


def test_an_aborted_checkpoint_lets_all_readers_go() -> None:
    source = enumerator()
    feed(source, found("ab"))
    source.snapshot(1)
    feed(source, asks(1), asks(0))

    effects = feed(source, CheckpointGivenUp(checkpoint_id=1))

    assert effects == [assigns(0, "a"), assigns(1, "b")]


def test_a_reader_waits_for_every_checkpoint_that_is_under_way() -> None:
    source = enumerator()
    feed(source, found("a"))
    source.snapshot(1)
    source.snapshot(2)

    after_the_first = feed(source, asks(0), settled(0, 1))
    after_the_second = feed(source, settled(0, 2))

    assert after_the_first == []
    assert after_the_second == [assigns(0, "a")]


def test_with_a_checkpoint_a_reader_has_settled_all_before_it() -> None:
    source = enumerator()
    feed(source, found("a"))
    source.snapshot(1)
    source.snapshot(2)

    effects = feed(source, asks(0), settled(0, 2))

    assert effects == [assigns(0, "a")]


def test_a_checkpoint_that_nobody_waits_for_settles_nothing() -> None:
    source = enumerator()

    effects = feed(source, settled(0, 7), CheckpointGivenUp(checkpoint_id=7))

    assert effects == [Ignore(reason="nobody waits for checkpoint 7")] * 2


def test_what_was_handed_out_behind_the_snapshot_is_handed_out_again_after_a_restore() -> None:
    source = enumerator()
    feed(source, found("abc"), asks(0, 1))
    checkpoint = source.snapshot(1)
    feed(source, settled(0, 1), settled(1, 1), asks(1, 1))

    source.restore(checkpoint)
    effects = feed(source, asks(0, 9))

    assert effects == [assigns(0, "bc")]


def test_without_a_checkpoint_everything_begins_again() -> None:
    source = enumerator()
    feed(source, found("abc"), asks(0, 2), asks(1, 1))

    source.restore(None)
    effects = feed(source, asks(1, 9))

    assert effects == [assigns(1, "abc")]


def test_what_was_found_behind_the_snapshot_need_not_be_found_again() -> None:
    source = enumerator()
    feed(source, found("a"))
    checkpoint = source.snapshot(1)
    feed(source, found("bc", finished=True), settled(0, 1), asks(0, 3))

    source.restore(checkpoint)
    effects = feed(source, asks(0, 9))

    assert effects == [assigns(0, "abc"), SignalNoMoreSplits(subtask=0)]
    assert source.seen == {"a", "b", "c"}


def test_another_job_master_goes_on_from_the_checkpoint() -> None:
    former = enumerator()
    feed(former, found("abc", finished=True), asks(0, 1))
    checkpoint = former.snapshot(1)

    source = enumerator()
    source.restore(checkpoint)
    effects = feed(source, asks(0, 9))

    assert source.discovery_finished
    assert source.seen == {"a", "b", "c"}
    assert effects == [assigns(0, "bc"), SignalNoMoreSplits(subtask=0)]


def test_readers_of_before_a_restore_have_no_claims() -> None:
    source = enumerator()
    feed(source, asks(0, 5))
    source.snapshot(1)

    source.restore(None)
    effects = feed(source, found("a"), asks(1))

    assert effects == [assigns(1, "a")]


def test_the_bytes_of_another_state_are_refused() -> None:
    source = enumerator()

    with pytest.raises(DecodeError, match="cannot be restored from a SplitReaderState"):
        source.restore(codec.encode(SplitReaderState()))


class SplitsAreReadOnce(RuleBasedStateMachine):
    """A source with readers that take part in overlapping checkpoints, crash and go on from any completed one.

    `held` is what each reader has got: its part of a checkpoint is taken at its barrier, that is, when it settles it.
    Whatever the interleaving, a checkpoint's snapshot and the readers' parts hold every known split exactly once.
    """

    subtasks = st.integers(0, 1)

    @initialize()
    def begin(self) -> None:
        self.source = SplitEnumerator(parallelism=2)
        self.held: list[list[SplitId]] = [[], []]
        self.pending: dict[int, tuple[bytes, dict[int, list[SplitId]]]] = {}
        self.completed: tuple[bytes | None, list[list[SplitId]]] = (None, [[], []])
        self.known: set[SplitId] = set()
        self.last_checkpoint = 0

    def feed(self, event: SplitEnumeratorEvent) -> None:
        for effect in self.source.handle(event, 0):
            self.perform(effect)

    def perform(self, effect: SplitEnumeratorEffect) -> None:
        if isinstance(effect, AssignSplits):
            self.held[effect.subtask] += [each.split_id for each in effect.splits]

    @rule(count=st.integers(1, 3))
    def find(self, count: int) -> None:
        fresh = [split(f"s{len(self.known) + index}") for index in range(count)]
        self.known |= {each.split_id for each in fresh}
        self.feed(SplitsFound(splits=tuple(fresh), finished=False))

    @rule(subtask=subtasks, count=st.integers(1, 3))
    def ask(self, subtask: int, count: int) -> None:
        self.feed(asks(subtask, count))

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

    @rule()
    def abort_the_oldest(self) -> None:
        if self.pending:
            checkpoint_id = next(iter(self.pending))
            del self.pending[checkpoint_id]
            self.feed(CheckpointGivenUp(checkpoint_id=checkpoint_id))

    @rule()
    def crash(self) -> None:
        data, parts = self.completed
        self.pending.clear()
        self.held = [list(part) for part in parts]
        self.source.restore(data)

    @invariant()
    def no_split_is_held_twice(self) -> None:
        self.source.check()
        held = self.held[0] + self.held[1]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        self.crash()
        self.feed(asks(0, 1_000_000))
        assert sorted(self.held[0] + self.held[1]) == sorted(self.known)


TestSplitsAreReadOnce = pytest.mark.slow(SplitsAreReadOnce.TestCase)
