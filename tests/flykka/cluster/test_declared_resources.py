"""TaskManagers with declared resources allocate slots of the sizes that jobs request, and report them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flykka.actors.resource_manager.actor import ResourceManager
from flykka.cluster.cluster_settings import ClusterSettings, TaskManagerResources
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.graph.job_graph import CheckpointingSettings, ResourceSpec
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.rest.handlers.cluster import task_manager
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.test_local_cluster import SilentDataPlane

MIB = 1 << 20
RESOURCES = TaskManagerResources(cpu_millis=2_000, memory_mib=1_000, managed_mib=400, network_mib=100)


def task_manager_info(system: SeededSystem) -> TaskManagerInfo:
    actors = (cell.instance for cell in system.cells.living())
    (manager,) = (each for each in actors if isinstance(each, ResourceManager))
    (own,) = manager.explain(0).by_task_manager
    return own


def test_slots_are_allocated_from_the_resources_of_the_task_manager(tmp_path: Path) -> None:
    system = SeededSystem(3)
    settings = ClusterSettings(slots_per_task_manager=2, resources=RESOURCES)
    asking = replace(vertex("parse", 3), resources=ResourceSpec(cpu_millis=500, heap_mib=100, managed_mib=20))
    with LocalCluster(SilentDataPlane(), settings, system=system) as cluster:
        job = cluster.submit(replace(graph_of(asking), checkpointing=CheckpointingSettings(directory=str(tmp_path))))
        job.wait_submitted(timeout=1)
        system.run_until_idle()
        running = task_manager_info(system)

    total = RESOURCES.slots_total
    left = ResourceSpec(cpu_millis=500, heap_mib=200, managed_mib=340)
    name = running.task_manager
    # No further slot of the default size fits.
    assert running == TaskManagerInfo(task_manager=name, slots=5, free=0, total=total, remaining=left)


def test_a_task_manager_reports_its_total_and_free_resources() -> None:
    own = TaskManagerInfo(
        task_manager="task-manager-1",  # type: ignore[arg-type]
        slots=3,
        free=1,
        total=RESOURCES.slots_total,
        remaining=ResourceSpec(cpu_millis=500, heap_mib=200, managed_mib=340),
        network_memory_bytes=100 * MIB,
    )

    response = task_manager(own, 4, 0)

    assert response["totalResource"] == {
        "cpuCores": 2.0,
        "taskHeapMemory": 500,
        "taskOffHeapMemory": 0,
        "managedMemory": 400,
        "networkMemory": 100,
        "extendedResources": {},
    }
    assert (response["freeResource"]["cpuCores"], response["freeResource"]["managedMemory"]) == (0.5, 340)
    assert response["memoryConfiguration"]["totalFlinkMemory"] == 1_000 * MIB
    assert response["memoryConfiguration"]["managedMemory"] == response["hardware"]["managedMemory"] == 400 * MIB
