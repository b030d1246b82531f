"""A TaskManager between a ResourceManager and a JobMaster that the test plays."""

from __future__ import annotations

import pytest

from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.task_manager_cluster import TaskManagerCluster, connect


@pytest.fixture
def cluster(system: SeededSystem) -> TaskManagerCluster:
    """A TaskManager that has just started."""
    return TaskManagerCluster(system)


@pytest.fixture
def connected(cluster: TaskManagerCluster) -> TaskManagerCluster:
    """A TaskManager that has offered a slot to the JobMaster, which has taken it."""
    connect(cluster)
    return cluster
