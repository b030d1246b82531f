"""The bridge of a simulation says what it is at, as Spark's does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.actors.bridge import Bridge
from flykka.messages.checkpoint import CheckpointOptions
from flykka.messages.explanation import ExplainStages, StageProgress, StagesExplained
from flykka.messages.ids import JobVertexId
from flykka.messages.job_graph import OperatorKind
from flykka.messages.ref import Ref
from flykka.messages.stage import CommitCheckpoint, OpenBridge, SnapshotState
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from flykka.simulation.data_plane import SimulatedDataPlane
from flykka.simulation.operators import Map, Program
from flykka.simulation.storage import mounted
from flykka.simulation.world import World
from tests.actors.execution.task_machine import descriptor

VERTEX = JobVertexId("vertex")
STAGE_MS = 40


@pytest.fixture
def world() -> Iterator[World]:
    with mounted("here") as storage:
        yield World("here", storage, Program(behaviours={"op": Map(salt=1)}), (STAGE_MS,))


def bridge_of(system: SeededSystem, world: World) -> Ref:
    return system.spawn(
        Props(Bridge, descriptor(OperatorKind.STATELESS, channels=1), SimulatedDataPlane(world)), "bridge"
    )


def asked(system: SeededSystem, bridge: Ref) -> tuple[StageProgress, ...]:
    probe = TestProbe(system)
    bridge.tell(ExplainStages(reply_to=probe.ref))
    system.advance(0)
    return probe.expect_message(StagesExplained).stages


def test_whoever_asks_is_told_the_stages_at_work_the_oldest_first(seeded_system: SeededSystem, world: World) -> None:
    bridge = bridge_of(seeded_system, world)
    world.trouble.slow_ms[VERTEX] = 3_000
    bridge.tell(OpenBridge(restore=None, restored_checkpoint_id=None))
    seeded_system.advance(100)
    bridge.tell(SnapshotState(stage=7, checkpoint_id=1, options=CheckpointOptions(), watermark_ms=0))
    seeded_system.advance(100)

    told = asked(seeded_system, bridge)
    seeded_system.advance(5_000)
    later = asked(seeded_system, bridge)

    assert told == (
        StageProgress(what="opening", since_ms=0),
        StageProgress(what="stage 7 of 'op'", since_ms=100),
    )
    assert later == ()


def test_what_is_done_in_the_background_is_told_too(seeded_system: SeededSystem, world: World) -> None:
    bridge = bridge_of(seeded_system, world)
    bridge.tell(CommitCheckpoint(checkpoint_id=3))

    assert asked(seeded_system, bridge) == (StageProgress(what="committing checkpoint 3", since_ms=0),)
