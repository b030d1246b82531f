"""Monitors report the same violations on a live run and on its trace, and none on correct runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.actors.machines.checkpoint.pending import PendingCheckpoint
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.monitors.monitor import Violation
from flykka.monitors.monitors import all_monitors, check
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.actors.whole_cluster import WholeCluster, is_a

pytestmark = pytest.mark.slow


def run_with_a_kill(seed: int, folder: Path, *, ring: int | None = None) -> list[Violation]:
    recorder = MonitoringRecorder(TraceRecorder(folder / "run.trace", ring=ring), all_monitors())
    with SeededSystem(seed, recorder=recorder) as system:
        stage = WholeCluster(system, folder)
        kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()
        stage.run(seconds=8)
    return recorder.end()


def seen_in_trace(folder: Path) -> list[Violation]:
    return list(check(TraceReader.open(folder / "run.trace").records(), all_monitors(), has_ended=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_correct_run_violates_no_law_live_or_recorded(seed: int, tmp_path: Path) -> None:
    assert run_with_a_kill(seed, tmp_path) == []
    assert seen_in_trace(tmp_path) == []


def test_a_suffix_of_a_correct_trace_violates_no_law(tmp_path: Path) -> None:
    run_with_a_kill(0, tmp_path)
    records = list(TraceReader.open(tmp_path / "run.trace").records())

    for begin in range(0, len(records), len(records) // 20):
        assert list(check(records[begin:], all_monitors(is_whole=False))) == []


def test_monitors_do_not_change_the_recording_of_a_run(tmp_path: Path) -> None:
    run_with_a_kill(0, tmp_path, ring=100)

    assert {snapshot.ref.path for snapshot in TraceReader.open(tmp_path / "run.trace").snapshots()} >= {
        "/user/job-manager"
    }


def test_a_violation_is_reported_equally_live_and_in_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = PendingCheckpoint.acknowledge

    def for_all(self: PendingCheckpoint, attempt: ExecutionAttemptId, state: TaskStateSnapshot | None) -> object:
        while self.awaited - {attempt}:
            acknowledge(self, min(self.awaited - {attempt}), state)
        return acknowledge(self, attempt, state)

    monkeypatch.setattr(PendingCheckpoint, "acknowledge", for_all)

    live = run_with_a_kill(0, tmp_path)

    assert live[0].monitor == "checkpoints"
    assert "without the acknowledgement of" in live[0].text
    assert [str(violation) for violation in seen_in_trace(tmp_path)] == [str(violation) for violation in live]
