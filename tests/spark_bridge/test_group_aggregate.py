"""Tests a running count by key: the rows that batches emit, the content of checkpoints, and the owners of keys."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import functions as F

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.messages.checkpointing.checkpoint import CheckpointOptions, SnapshotType
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.spark_bridge.operators.group_aggregate import GroupAggregateCode
from flykka.spark_bridge.operators.keyed_batch import STATE
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.aggregates import PartialAggregates, analyze
from flykka.spark_bridge.state.segment_files import FileStateBackend
from tests.spark_bridge.driven_attempts import DrivenAttempt
from tests.spark_bridge.harness import Harness
from tests.spark_bridge.keyed_attempts import KeyedAttempts, Sale, take_snapshots

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES: list[list[Sale]] = [
    [(1, 1, 0.0), (1, 2, 0.1), (2, 3, 0.2)],
    [(1, 4, 0.3), (3, None, 0.4)],
    [(2, 5, 0.5), (2, 6, 0.6), (3, 7, 0.7)],
]
RUNNING = [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]


class Counting(KeyedAttempts):
    def __init__(self, harness: Harness, *, key: str = "key", files: Sequence[Sequence[Sale]] = FILES) -> None:
        prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")
        plan = analyze(prototype, (key,), (F.count("*").alias("n"),))
        assert isinstance(plan, PartialAggregates)
        code = GroupAggregateCode(plan=plan)
        super().__init__(harness, code, files, LocalAggregateCode(of=code))

    def published(self) -> list[tuple[int | None, int]]:
        rows = (tuple(row) for row in self.harness.published().collect())
        return sorted(rows, key=lambda row: (row[0] is None, row))


def test_each_batch_emits_the_running_count_of_its_keys(harness: Harness) -> None:
    counting = Counting(harness)
    subtasks = counting.begin()

    counting.read(subtasks, 0, 1, 2)
    take_snapshots(subtasks, 1)

    assert counting.published() == RUNNING


def test_null_is_counted_like_any_other_key(harness: Harness) -> None:
    counting = Counting(harness, key="amount", files=[[(1, None, 0.0), (2, None, 0.1), (3, 7, 0.2)]] * 2)
    subtasks = counting.begin()

    counting.read(subtasks, 0, 1)
    take_snapshots(subtasks, 1)

    assert counting.published() == [(7, 1), (7, 2), (None, 2), (None, 4)]


# Functions of keyed rows also cover this.
@pytest.mark.long
def test_counts_resume_from_a_checkpoint_and_later_rows_count_once(harness: Harness) -> None:
    counting = Counting(harness)
    (first,) = counting.begin()
    counting.read([first], 0)
    state = first.snapshot(1).state
    first.commit(1)
    counting.read([first], 1)
    first.close(cancel=True)

    restored = counting.begin(1, [state])
    counting.read(restored, 1, 2)
    take_snapshots(restored, 2)

    assert counting.published() == RUNNING


# The state of `process_table` is redistributed in the same way.
@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        (1, 3),
        (3, 1),
        # Both of two subtasks are split, and one of the three new subtasks takes over from both.
        (2, 3),
    ],
)
def test_counts_resume_at_another_parallelism_with_each_keys_new_owner(
    harness: Harness, before: int, after: int
) -> None:
    counting = Counting(harness)
    subtasks = counting.begin(before)
    counting.read(subtasks, 0, 1)

    rescaled = counting.begin(after, take_snapshots(subtasks, 1))
    counting.read(rescaled, 2)
    states = take_snapshots(rescaled, 2)

    assert counting.published() == RUNNING
    owned = {key_groups_of(subtask, 128, after) for subtask in range(after)}
    assert {state.key_groups for snapshot in states for state in snapshot.operators if state.shared} <= owned


# tests/integration/test_state_from_outside.py reads totals from a savepoint.
@pytest.mark.long
def test_a_savepoint_contains_all_counts_under_their_name(harness: Harness) -> None:
    counting = Counting(harness)
    (subtask,) = counting.begin()
    counting.read([subtask], 0)
    subtask.snapshot(1)
    subtask.commit(1)
    counting.read([subtask], 1)

    state = take_savepoint(subtask, 2, str(harness.folder / "savepoint"))
    subtask.close(cancel=True)
    restored = counting.begin(1, [state])
    counting.read(restored, 2)
    take_snapshots(restored, 3)

    keyed = state.operators[0]
    assert [handle.state_name for handle in keyed.exclusive] == [STATE]
    assert not keyed.shared
    assert counting.published() == RUNNING


def test_many_batches_are_merged_without_changing_counts(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileStateBackend, "merge_at", 2)
    counting = Counting(harness, files=[[(1, 1, 0.0)]] * 4)
    subtasks = counting.begin()

    counting.read(subtasks, 0, 1, 2, 3)
    take_snapshots(subtasks, 1)

    assert counting.published() == [(1, count) for count in range(1, 5)]


def take_savepoint(subtask: DrivenAttempt, checkpoint_id: int, folder: str) -> TaskStateSnapshot:
    options = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT, target_location=folder)
    return subtask.snapshot(checkpoint_id, options=options).state
