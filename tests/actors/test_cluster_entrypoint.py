"""The ClusterEntrypoint: whoever of its two components ends is made anew at the same path, until that is hopeless."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from flykka.actors.cluster.entrypoint import ClusterEntrypoint
from flykka.actors.machines.restart.component_restarts import MAX_ENDS
from flykka.messages.control.cluster import ClusterComponents, ClusterFailed, RequestClusterComponents
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.peer import Peer


@message("test.fail_component")
class Fail(Message):
    """test -> component: raise."""


class Component(Actor):
    """Does nothing, and ends when it fails, as the real ones do."""

    def handle_message(self, message: Message) -> None:
        raise RuntimeError("it was told to")

    def post_restart(self, cause: BaseException | None) -> None:
        self.context.stop()


@dataclass(frozen=True)
class Plain:
    """Makes components, and remembers for whom."""

    made_for: list[Ref]

    def __call__(self, resource_manager: Ref | None = None) -> Props:
        if resource_manager is not None:
            self.made_for.append(resource_manager)
        return Props(Component)


class World:
    """An entrypoint with two components, and a bystander that is called as a TaskManager is."""

    def __init__(self, system: SeededSystem) -> None:
        self.system = system
        self.made_for: list[Ref] = []
        self.failed: list[ClusterFailed] = []
        system.event_stream.subscribe(self.failed.append, ClusterFailed)
        system.spawn(Props(ClusterEntrypoint, Plain([]), Plain(self.made_for)), "cluster-entrypoint")
        system.spawn(Props(Component), "task-manager-1")
        system.run_until_idle()

    def kill(self, name: str) -> None:
        doomed = self.system.find(f"/user/{name}")
        assert doomed is not None
        self.system.kill(doomed)
        self.system.run_until_idle()

    def is_alive(self, name: str) -> bool:
        return self.system.find(f"/user/{name}") is not None

    @property
    def living(self) -> list[str]:
        return [path for path in self.system.cells.living_paths() if path.count("/") == 2]


@pytest.fixture
def world() -> Iterator[World]:
    with SeededSystem(3) as system:
        yield World(system)


@pytest.mark.parametrize("name", ["resource-manager", "job-manager"])
def test_a_killed_component_is_produced_again_at_once_under_its_name(world: World, name: str) -> None:
    before = world.system.find(f"/user/{name}")

    world.kill(name)

    after = world.system.find(f"/user/{name}")
    assert before is not None
    assert after is not None
    assert after.incarnation > before.incarnation


@pytest.mark.parametrize("name", ["resource-manager", "job-manager"])
def test_a_component_that_fails_is_produced_again_as_well(world: World, name: str) -> None:
    before = world.system.find(f"/user/{name}")
    assert before is not None

    before.tell(Fail())
    world.system.run_until_idle()

    assert world.system.find(f"/user/{name}") not in (None, before)


def test_the_next_job_manager_is_told_of_the_resource_manager_that_lives(world: World) -> None:
    world.kill("resource-manager")
    world.kill("job-manager")

    assert world.made_for[-1] == world.system.find("/user/resource-manager")


def test_whoever_asks_learns_who_the_components_are(world: World) -> None:
    peer = Peer(world.system, "peer")
    entrypoint = world.system.find("/user/cluster-entrypoint")
    assert entrypoint is not None

    peer.say(entrypoint, RequestClusterComponents(reply_to=peer.ref))

    components = peer.expect(ClusterComponents)
    assert components.resource_manager == world.system.find("/user/resource-manager")
    assert components.job_manager == world.system.find("/user/job-manager")


def test_one_that_ends_again_soon_is_produced_again_after_a_pause(world: World) -> None:
    world.kill("job-manager")
    world.kill("job-manager")
    before = world.is_alive("job-manager")

    world.system.advance(100)

    assert not before
    assert world.is_alive("job-manager")


def test_a_cluster_whose_component_ends_too_often_ends_as_a_whole_and_says_why(world: World) -> None:
    for _ in range(MAX_ENDS):
        world.system.advance(10_000)
        world.kill("job-manager")

    [failed] = world.failed
    assert failed.cause.type_name == "ClusterFailedError"
    assert f"the JobManager has ended {MAX_ENDS} times in a row" in failed.cause.message
    assert world.living == []


def test_nothing_is_produced_again_while_the_system_ends(world: World) -> None:
    world.system.terminate()
    world.system.run_until_idle()

    assert world.living == []
