"""A whole cluster with few network buffers: less data is in flight, and each file is still counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.control.job import CheckpointCompleted, JobResultFailure, JobStatus
from flykka.messages.graph.job_graph import NoRestartStrategyConfiguration
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.whole_cluster import ALL_FILES, WholeCluster, is_a, seeds

MINIMUM = 14
"""The buffers of two slots, each with a source (two subpartitions and one extra) and a sink (two channels of two
buffers).
"""


@pytest.mark.parametrize(
    "network",
    [
        NetworkSettings(network_buffers=MINIMUM),
        NetworkSettings(network_buffers=MINIMUM + 3, network_memory_bytes=1),
        NetworkSettings(buffers_per_channel=1, floating_buffers_per_gate=0),
    ],
    ids=["minimal buffers", "minimal bytes", "one batch at a time"],
)
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_with_few_buffers_finishes_whichever_actor_is_killed(
    network: NetworkSettings, seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path, network=network)
        kill = kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()

        stage.run(seconds=15)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


def test_a_job_with_too_few_buffers_fails_with_its_requirements(tmp_path: Path) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path, network=NetworkSettings(network_buffers=MINIMUM - 1))
        stage.submit(parallelism=4, restart_strategy=NoRestartStrategyConfiguration())

        stage.run(seconds=5)

        (failure,) = stage.client.received(JobResultFailure)
        assert failure.cause.type_name == "InsufficientNetworkBuffersError"
        assert f"is currently set to {MINIMUM - 1} per TaskManager" in failure.cause.message
