"""A TaskManager between a ResourceManager and a JobMaster, both controlled by the test."""

from __future__ import annotations

import pytest

from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.task_manager_cluster import TaskManagerCluster, connect


@pytest.fixture
def cluster(system: SeededSystem) -> TaskManagerCluster:
    return TaskManagerCluster(system)


@pytest.fixture
def connected(cluster: TaskManagerCluster) -> TaskManagerCluster:
    connect(cluster)
    return cluster
