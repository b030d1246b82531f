"""A whole cluster in which a job is stopped, resumed and monitored: no row is lost or duplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.control.job import (
    JobResultSuccess,
    JobStatus,
    MetricsReported,
    StoppingFailure,
    StoppingSuccess,
)
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.whole_cluster import ALL_FILES, FILES, WholeCluster, is_a, seeds


@pytest.mark.parametrize("after_ms", [300, 990, 1_010, 1_200])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_stopped_and_resumed_job_counts_each_file_once(after_ms: int, seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit("first")
        system.advance(after_ms)
        stage.stop("first")
        system.advance(50)

        stopped = stage.client.expect(StoppingSuccess)
        published = stage.data_plane.sink.published
        stage.submit("second", restore_path=stopped.checkpoint_path)
        stage.run(seconds=5)

        assert len(published) < FILES
        assert [success.job_id for success in stage.client.received(JobResultSuccess)] == ["first", "second"]
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("moment", [TriggerCheckpoint, AcknowledgeCheckpoint, NotifyCheckpointComplete])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_that_loses_a_task_manager_while_stopping_continues(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit()
        system.advance(300)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.stop()

        stage.run(seconds=10)

        assert kill.done
        assert stage.client.expect(StoppingFailure).cause.message.startswith("it became FAILING meanwhile")
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("seed", seeds(3))
def test_every_attempt_reports_its_activity_times_once_per_interval(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit(heartbeat_interval_ms=100)

        system.advance(1_000)

        reports = [
            (report.vertex_id, report.subtask, report.metrics) for report in stage.client.received(MetricsReported)
        ]
        spent = {
            of: [each.busy_ms + each.back_pressured_ms + each.idle_ms for *who, each in reports if tuple(who) == of]
            for of in {(vertex_id, subtask) for vertex_id, subtask, _ in reports}
        }
        assert sorted(spent) == [("sink", 0), ("sink", 1), ("source", 0), ("source", 1)]
        for times in spent.values():
            assert len(times) >= 9
            assert times == sorted(times)
            assert 800 < times[-1] <= 1_000
