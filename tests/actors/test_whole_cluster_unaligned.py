"""A whole cluster with a slow sink: barriers overtake queued batches, and after a kill every row is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.attempt.answers import ChannelStateWritten
from flykka.messages.attempt.commands import HoldBatches, WriteChannelState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.graph.job_graph import CheckpointingMode
from flykka.messages.tasks.exchange import BufferResponse
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.slow_cluster import ALL_FILES, SlowNames
from tests.actors.whole_cluster import WholeCluster, is_a, seeds

pytestmark = pytest.mark.slow

UNALIGNED = {"unaligned": True}
TIMING_OUT = {"unaligned": True, "aligned_timeout_ms": 300}


def run_unaligned_job(system: SeededSystem, folder: Path, **checkpointing: object) -> tuple[WholeCluster, SlowNames]:
    data_plane = SlowNames()
    stage = WholeCluster(system, folder, data_plane)
    stage.checkpointing = {**checkpointing}
    stage.submit()
    stage.run(seconds=12)
    return stage, data_plane


def durations_ms(stage: WholeCluster) -> list[int]:
    return [completed.duration_ms for completed in stage.client.received(CheckpointCompleted)]


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("checkpointing", [UNALIGNED, TIMING_OUT])
def test_unaligned_checkpoints_do_not_wait_for_queued_batches(
    seed: int, checkpointing: dict[str, object], tmp_path: Path
) -> None:
    with SeededSystem(seed) as aligned, SeededSystem(seed) as unaligned:
        slow, _ = run_unaligned_job(aligned, tmp_path / "aligned")
        fast, batches = run_unaligned_job(unaligned, tmp_path / "unaligned", **checkpointing)

        for stage in (slow, fast):
            assert stage.statuses()[-1] is JobStatus.FINISHED
            assert stage.data_plane.sink.published == ALL_FILES
            assert stage.client.received(CheckpointAborted) == []
        assert durations_ms(fast)[0] < durations_ms(slow)[0]
        assert batches.batches.files


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        TriggerCheckpoint,
        HoldBatches,
        WriteChannelState,
        ChannelStateWritten,
        AcknowledgeCheckpoint,
        CheckpointCompleted,
        NotifyCheckpointComplete,
    ],
)
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("checkpointing", [UNALIGNED, TIMING_OUT])
def test_in_flight_data_counts_once_if_a_task_manager_is_killed(
    moment: type[Message], seed: int, checkpointing: dict[str, object], tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        data_plane = SlowNames()
        stage = WholeCluster(system, tmp_path, data_plane)
        stage.checkpointing = checkpointing
        kill = kill_when(system, "/user/task-manager-2", is_a(moment))
        stage.submit()

        stage.run(seconds=25)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert data_plane.sink.published == ALL_FILES
        if moment in (CheckpointCompleted, NotifyCheckpointComplete):
            assert data_plane.batches.restored


@pytest.mark.parametrize("seed", seeds(3))
def test_an_at_least_once_job_loses_no_row(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        data_plane = SlowNames()
        stage = WholeCluster(system, tmp_path, data_plane)
        stage.checkpointing = {"mode": CheckpointingMode.AT_LEAST_ONCE}
        kill = kill_when(system, "/user/task-manager-2", is_a(BufferResponse))
        stage.submit()

        stage.run(seconds=25)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert set(data_plane.sink.published) == set(ALL_FILES)
