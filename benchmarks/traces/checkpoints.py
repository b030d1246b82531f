"""A recorded job that takes checkpoints, whose messages dominate most traces."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.checkpoints.data_plane import InstantDataPlane
from benchmarks.checkpoints.topologies import HEARTBEAT_TIMEOUT_MS, TASK_MANAGERS, TOPOLOGIES, job_graph
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.control.checkpoint_coordination import PeriodicTriggerDue
from flykka.runtime.trace.file.reader import TraceReader

_TOPOLOGY = next(topology for topology in TOPOLOGIES if topology.name == "256")
_SECONDS_AT_MOST = 120.0
_LOOK_S = 0.01


def bytes_per_turn(path: Path, checkpoints: int) -> float:
    """Record a job of 256 tasks from its submission to its cancellation; return the file's bytes per turn.

    Raises:
        TimeoutError: a checkpoint does not complete.
    """
    plane = InstantDataPlane()
    settings = ClusterSettings(
        task_managers=TASK_MANAGERS,
        slots_per_task_manager=_TOPOLOGY.slots_per_task_manager,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        record=str(path),
    )
    with TemporaryDirectory(prefix="flykka-benchmark-") as folder, LocalCluster(plane, settings) as cluster:
        plane.opened.begin(_TOPOLOGY.tasks)
        client = cluster.submit(job_graph(_TOPOLOGY, folder))
        plane.opened.wait(_SECONDS_AT_MOST)
        coordinator = cluster.system.actor_selection(f"/user/job-manager/job-{client.job_id}/checkpoint-coordinator")
        for number in range(1, checkpoints + 1):

            def is_complete(wanted: int = number) -> bool:
                if client.details.checkpoints_completed < wanted:
                    # Triggers are declined while the last tasks start.
                    coordinator.tell(PeriodicTriggerDue())
                return client.details.checkpoints_completed >= wanted

            _wait_until(is_complete)
        client.cancel(timeout=_SECONDS_AT_MOST)
        _wait_until(client.done)
    return path.stat().st_size / sum(1 for _ in TraceReader.open(path))


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS_AT_MOST
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job makes no progress within {_SECONDS_AT_MOST:.0f} s")
        time.sleep(_LOOK_S)
