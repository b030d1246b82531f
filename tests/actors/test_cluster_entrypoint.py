"""The ClusterEntrypoint restarts an ended component at the same path, until it fails too often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from flykka.actors.machines.restart.component_restarts import MAX_ENDS
from flykka.messages.control.cluster import ClusterComponents, ClusterFailed, RequestClusterComponents
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import ClusterBuilder


@message("test.fail_component")
class Fail(Message):
    """test -> component: raise."""


class Component(Actor):
    """Ignores messages, and stops when it fails, as the real components do."""

    def handle_message(self, message: Message) -> None:
        raise RuntimeError("requested by the test")

    def post_restart(self, cause: BaseException | None) -> None:
        self.context.stop()


@dataclass(frozen=True)
class Plain:
    made_for: list[Ref]

    def __call__(self, resource_manager: Ref | None = None) -> Props:
        if resource_manager is not None:
            self.made_for.append(resource_manager)
        return Props(Component)


class EntrypointCluster(ClusterBuilder):
    """An entrypoint with two components, and an unrelated actor that has a TaskManager's name."""

    def __init__(self, system: SeededSystem) -> None:
        super().__init__(system)
        self.made_for: list[Ref] = []
        self.failed: list[ClusterFailed] = []
        system.event_stream.subscribe(self.failed.append, ClusterFailed)
        self.start_entrypoint(Plain([]), Plain(self.made_for))
        self.start(Props(Component), "task-manager-1")


@pytest.fixture
def cluster() -> Iterator[EntrypointCluster]:
    with SeededSystem(3) as system:
        yield EntrypointCluster(system)


@pytest.mark.parametrize("name", ["resource-manager", "job-manager"])
def test_a_killed_component_is_restarted_at_once_under_its_name(cluster: EntrypointCluster, name: str) -> None:
    before = cluster.find(name)

    cluster.kill(name)

    after = cluster.find(name)
    assert after.incarnation > before.incarnation


@pytest.mark.parametrize("name", ["resource-manager", "job-manager"])
def test_a_failed_component_is_restarted(cluster: EntrypointCluster, name: str) -> None:
    before = cluster.find(name)

    before.tell(Fail())
    cluster.system.run_until_idle()

    assert cluster.find(name) != before


def test_a_new_job_manager_gets_the_living_resource_manager(cluster: EntrypointCluster) -> None:
    cluster.kill("resource-manager")
    cluster.kill("job-manager")

    assert cluster.made_for[-1] == cluster.find("resource-manager")


def test_a_request_for_the_components_is_answered_with_their_refs(cluster: EntrypointCluster) -> None:
    peer = cluster.probe("peer")
    entrypoint = cluster.find("cluster-entrypoint")

    peer.send(entrypoint, RequestClusterComponents(reply_to=peer.ref))

    components = peer.expect(ClusterComponents)
    assert components.resource_manager == cluster.find("resource-manager")
    assert components.job_manager == cluster.find("job-manager")


def test_a_component_that_soon_ends_again_restarts_after_a_delay(cluster: EntrypointCluster) -> None:
    cluster.kill("job-manager")
    cluster.kill("job-manager")
    before = cluster.is_alive("job-manager")

    cluster.system.advance(100)

    assert not before
    assert cluster.is_alive("job-manager")


def test_a_cluster_ends_with_a_reason_if_a_component_ends_too_often(cluster: EntrypointCluster) -> None:
    for _ in range(MAX_ENDS):
        cluster.system.advance(10_000)
        cluster.kill("job-manager")

    [failed] = cluster.failed
    assert failed.cause.type_name == "ClusterFailedError"
    assert f"the JobManager has ended {MAX_ENDS} times in a row" in failed.cause.message
    assert cluster.living() == []


def test_components_are_not_restarted_while_the_system_terminates(cluster: EntrypointCluster) -> None:
    cluster.system.terminate()
    cluster.system.run_until_idle()

    assert cluster.living() == []
