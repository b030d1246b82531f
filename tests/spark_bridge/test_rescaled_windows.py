"""Tests rescaled windows: each row is read by its new owner, and by no other subtask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import covers, key_groups_of
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.operators.spark_windows import WindowCode
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from tests.conformance.key_groups.checkpoints import checkpoint_of_states
from tests.spark_bridge.driven_attempts import DrivenAttempt, Snapshot
from tests.spark_bridge.harness import END, Harness, at_ms, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = range(8)
ROWS = [(key, key, second) for second in (0.0, 1.0, 2.0) for key in KEYS]


class Job:
    def __init__(self, harness: Harness, windows: WindowCode) -> None:
        write_rows(harness.input / "0.parquet", ROWS)
        self.harness = harness
        self.vertex = harness.vertex("windows", windows, harness.sink())
        self.source_vertex = harness.source(LocalAggregateCode(of=windows))
        self.attempts = 0

    def begin(self, parallelism: int, snapshots: Sequence[Snapshot] = ()) -> list[DrivenAttempt]:
        vertex = replace(self.vertex, parallelism=parallelism)
        before = replace(self.vertex, parallelism=len(snapshots) or parallelism)
        of_subtasks = {before.vertex_id: (before, [snapshot.state for snapshot in snapshots])}
        states = assign(checkpoint_of_states(of_subtasks), [vertex]).states
        source = self.harness.begin(self.source_vertex, readers=parallelism, number=self.attempts).open()
        subtasks = [
            self.harness.begin(vertex, subtask=subtask, number=self.attempts, reads=source).open(
                states.get((vertex.vertex_id, subtask))
            )
            for subtask in range(parallelism)
        ]
        self.attempts += 1
        if not snapshots:
            batches = source.read(self.harness.splits(self.source_vertex))
            for subtask, windows in enumerate(subtasks):
                windows.run(batches, subpartition=subtask)
        return subtasks

    def end(self, subtasks: Sequence[DrivenAttempt], checkpoint_id: int) -> list[tuple[int, int]]:
        for windows in subtasks:
            windows.snapshot(checkpoint_id, END)
            windows.commit(checkpoint_id)
        return sorted((row.key, row.n) for row in self.harness.published().collect())


def take_snapshots(subtasks: Sequence[DrivenAttempt], checkpoint_id: int, *watermarks_ms: int) -> list[Snapshot]:
    """Take and commit snapshots of all subtasks, each at its watermark, then end the attempts."""
    snapshots = []
    for number, windows in enumerate(subtasks):
        snapshots.append(windows.snapshot(checkpoint_id, watermarks_ms[number] if watermarks_ms else WATERMARK_MIN))
        windows.commit(checkpoint_id)
        windows.close()
    return snapshots


def handles(snapshots: Sequence[Snapshot]) -> list[SharedStateHandle]:
    return [handle for snapshot in snapshots for state in snapshot.state.operators for handle in state.shared]


def test_each_new_subtask_reads_and_rewrites_its_own_share_of_state(harness: Harness) -> None:
    job = Job(harness, harness.windows())
    one = take_snapshots(job.begin(1), 1)

    two = take_snapshots(job.begin(2, one), 2)
    again = take_snapshots(job.begin(2, two), 3)

    assert not {handle.state_id for handle in handles(two)} & {handle.state_id for handle in handles(one)}
    assert [handle.key_groups for handle in handles(two)] == [key_groups_of(subtask, 128, 2) for subtask in range(2)]
    assert handles(again) == handles(two)
    assert sum(handle.rows for handle in handles(two)) == len(ROWS)
    assert job.end(job.begin(2, again), 4) == sorted((key, 1) for key in KEYS for _ in range(3))


# The next test shows that no row is lost or fired twice if one subtask takes over from two.
@pytest.mark.long
def test_state_taken_over_as_a_whole_is_not_rewritten(harness: Harness) -> None:
    job = Job(harness, harness.windows())
    three = take_snapshots(job.begin(3), 1, *[at_ms(1)] * 3)

    two = take_snapshots(job.begin(2, three), 2)
    one = take_snapshots(job.begin(1, two), 3)

    kept = {handle.state_id for handle in handles(two)} & {handle.state_id for handle in handles(three)}
    assert len(kept) == 2
    assert all(covers(key_groups_of(0, 128, 1), handle.key_groups) for handle in handles(one) if handle.key_groups)
    assert {handle.state_id for handle in handles(one)} == {handle.state_id for handle in handles(two)}
    assert job.end(job.begin(1, one), 4) == sorted((key, 1) for key in KEYS for _ in range(3))


@pytest.mark.parametrize("slide_ms", [pytest.param(1000, marks=pytest.mark.long), 500])
def test_windows_fired_in_only_one_old_subtask_fire_once(harness: Harness, slide_ms: int) -> None:
    job = Job(harness, harness.windows(slide_ms=slide_ms))
    further = take_snapshots(job.begin(2), 1, at_ms(1), at_ms(2))

    one = take_snapshots(job.begin(1, further), 2)
    again = take_snapshots(job.begin(1, one), 3)

    windows_of_a_row = 1000 // slide_ms
    assert job.end(job.begin(1, again), 4) == sorted((key, 1) for key in KEYS for _ in range(3 * windows_of_a_row))
