"""A cluster on one thread, with a data plane that never replies: starts, losses, replacements and shutdown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.execution_graph_info_store.actor import INFO_STORE_PATH
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import (
    ClusterError,
    InsufficientNetworkBuffersError,
    InsufficientSlotsError,
    JobExecutionError,
    UnknownTaskManagerError,
)
from flykka.messages.control.job import JobResultSuccess
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    NoRestartStrategyConfiguration,
    ShipStrategy,
)
from flykka.messages.monitoring.job_details import TrackJob
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.runtime.patterns.coordinated_shutdown import BEFORE_SERVICE_UNBIND
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from flykka.simulation.storage import Operation, mounted
from tests.actors.job_cluster import ScriptedDataPlane
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.peer import PeerActor


class SilentDataPlane(ScriptedDataPlane):
    """A data plane whose bridges accept every command and never reply: a job on it starts, and never ends."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(PeerActor, [])


class ClusterFixture:
    def __init__(self, settings: ClusterSettings) -> None:
        self.system: SeededSystem = SeededSystem(3)
        self.data_plane = SilentDataPlane()
        self.cluster = LocalCluster(self.data_plane, settings, system=self.system)
        self.system.run_until_idle()


@pytest.fixture
def start_local_cluster() -> Iterator[Callable[..., ClusterFixture]]:
    """Starts a cluster, by default of two TaskManagers with two slots each."""
    made: list[ClusterFixture] = []

    def begin(settings: ClusterSettings | None = None) -> ClusterFixture:
        made.append(ClusterFixture(settings or ClusterSettings(task_managers=2, slots_per_task_manager=2)))
        return made[-1]

    yield begin
    for each in made:
        each.cluster.shutdown()


def job_without_restart(folder: Path, parallelism: int = 1) -> JobGraph:
    graph = graph_of(vertex("source", parallelism), restart=NoRestartStrategyConfiguration())
    return replace(graph, checkpointing=CheckpointingSettings(directory=str(folder)))


def test_a_cluster_starts_its_task_managers(start_local_cluster: Callable[..., ClusterFixture]) -> None:
    cluster = start_local_cluster().cluster

    assert cluster.task_managers() == ("task-manager-1", "task-manager-2")


def test_a_cluster_that_was_shut_down_refuses_jobs(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    cluster = start_local_cluster().cluster
    cluster.shutdown()

    with pytest.raises(ClusterError, match="has no cluster to run on: it was shut down"):
        cluster.submit(job_without_restart(tmp_path))


def test_an_adopted_system_is_not_recorded_by_the_cluster(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"

    with pytest.raises(ClusterError, match="give that system a recorder"):
        LocalCluster(SilentDataPlane(), ClusterSettings(record=str(trace)), system=SeededSystem())
    assert not trace.exists()


def test_a_killed_task_manager_is_replaced_under_a_new_name(start_local_cluster: Callable[..., ClusterFixture]) -> None:
    made = start_local_cluster()

    made.cluster.kill_task_manager("task-manager-1")
    made.system.run_until_idle()

    assert made.cluster.task_managers() == ("task-manager-2", "task-manager-3")


@pytest.mark.parametrize("name", ["task-manager-7", "job-manager", "/user/task-manager-1", ""])
def test_only_a_living_task_manager_can_be_killed(
    start_local_cluster: Callable[..., ClusterFixture], name: str
) -> None:
    cluster = start_local_cluster().cluster

    with pytest.raises(UnknownTaskManagerError, match="there are: task-manager-1, task-manager-2"):
        cluster.kill_task_manager(name)


def test_a_job_without_restarts_fails_if_its_task_manager_is_lost(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    made = start_local_cluster(ClusterSettings(task_managers=1, slots_per_task_manager=1))
    client = made.cluster.submit(job_without_restart(tmp_path))
    client.wait_submitted(timeout=1)
    made.system.run_until_idle()

    made.cluster.kill_task_manager("task-manager-1")

    with pytest.raises(JobExecutionError, match="task-manager-1"):
        client.wait(timeout=60)


def test_a_job_that_needs_more_slots_than_exist_is_not_submitted(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    cluster = start_local_cluster().cluster

    with pytest.raises(InsufficientSlotsError, match="needs 5 slots but the cluster has 4: 2 TaskManagers with 2 each"):
        cluster.submit(job_without_restart(tmp_path, parallelism=5))


def test_the_refusal_names_the_parallelism_at_which_the_job_would_run(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    cluster = start_local_cluster().cluster

    with pytest.raises(InsufficientSlotsError, match="lower the job's parallelism to 4, or give the cluster more"):
        cluster.submit(job_without_restart(tmp_path, parallelism=5))


def test_a_job_that_fits_when_more_task_managers_are_started_is_submitted(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    made = start_local_cluster(ClusterSettings(task_managers=1, max_task_managers=3, slots_per_task_manager=2))

    made.cluster.submit(job_without_restart(tmp_path, parallelism=5)).wait_submitted(timeout=1)
    made.system.run_until_idle()

    assert made.cluster.task_managers() == ("task-manager-1", "task-manager-2", "task-manager-3")


@pytest.mark.parametrize(
    ("network_buffers", "refusal"),
    [
        (3, r"sink \(1/2\) needs 4 network buffers, and each TaskManager has 3: lower .* \(network_buffers\)"),
        (4, "job 'job' needs 14 network buffers, and the cluster has 8"),
    ],
)
def test_a_job_that_never_fits_the_network_buffers_is_not_submitted(
    network_buffers: int, refusal: str, tmp_path: Path
) -> None:
    graph = graph_of(
        vertex("source", 2, outputs=1),
        vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.HASH),
    )
    network = NetworkSettings(network_buffers=network_buffers)
    settings = ClusterSettings(task_managers=2, slots_per_task_manager=2, network=network)
    with (
        LocalCluster(ScriptedDataPlane(), settings) as cluster,
        pytest.raises(InsufficientNetworkBuffersError, match=refusal),
    ):
        cluster.submit(replace(graph, checkpointing=CheckpointingSettings(directory=str(tmp_path))))


@pytest.mark.parametrize(("task_managers", "needed", "slots"), [(1, 3, 3), (2, 3, 2), (2, 4, 2), (4, 1, 1)])
def test_the_default_number_of_slots_is_the_required_one(task_managers: int, needed: int, slots: int) -> None:
    settings = ClusterSettings(task_managers=task_managers)

    assert settings.with_slots_for(needed).slots_per_task_manager == slots
    assert replace(settings, slots_per_task_manager=8).with_slots_for(needed).slots_per_task_manager == 8


def test_a_cluster_shutdown_leaves_no_actor_and_no_data(
    start_local_cluster: Callable[..., ClusterFixture], tmp_path: Path
) -> None:
    made = start_local_cluster()
    client = made.cluster.submit(job_without_restart(tmp_path))
    client.wait_submitted(timeout=1)

    made.cluster.shutdown()

    with pytest.raises(JobExecutionError, match="was lost"):
        client.wait(timeout=0)
    assert made.data_plane.released == [client.job_id]
    assert made.system.terminated.done()


def test_a_cluster_may_be_shut_down_twice(start_local_cluster: Callable[..., ClusterFixture]) -> None:
    made = start_local_cluster()

    made.cluster.shutdown()
    made.cluster.shutdown()

    assert made.cluster.task_managers() == ()


def test_a_shutdown_completes_archives_in_progress() -> None:
    shuts_down = threading.Event()
    checkpointing = CheckpointingSettings(directory="simulated://archiving", archive_directory="simulated://archiving")
    graph = replace(graph_of(vertex("source")), checkpointing=checkpointing)
    with mounted("archiving") as storage:
        cluster = LocalCluster(SilentDataPlane(), ClusterSettings())
        cluster.system.coordinated_shutdown.add_task(BEFORE_SERVICE_UNBIND, "begun", shuts_down.set)

        def fails(operation: Operation, path: str) -> bool:
            # A system without pending messages would already have terminated.
            return not shuts_down.wait(timeout=10) or cluster.system.terminated.ended_within(0.2)

        storage.fails = fails
        assert cluster.jobs() == (), "the JobManager has begun"
        info_store = cluster.system.find(INFO_STORE_PATH)
        assert info_store is not None
        info_store.tell(TrackJob(job_graph=graph))
        info_store.tell(JobResultSuccess(job_id=graph.job_id))

        cluster.shutdown()

        assert list(storage.files) == [f"archiving/{graph.job_id}.archive"]
