"""The bridge of a simulation reports its current work, as Spark's does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.actors.task.bridge import Bridge
from flykka.messages.attempt.commands import CommitCheckpoint, OpenChain, ReadSplits
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.monitoring.explanation import ExplainStages, StageProgress, StagesExplained
from flykka.messages.wire.ids import JobVertexId
from flykka.messages.wire.ref import Ref
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from flykka.simulation.data_plane import SimulatedDataPlane
from flykka.simulation.environment import Environment
from flykka.simulation.operators import Program, Source
from flykka.simulation.storage import mounted
from tests.actors.machines.attempt.attempt_machine import descriptor

VERTEX = JobVertexId("vertex")
STAGE_MS = 40
SOURCE = Source(
    number=0, rows=1, keys=1, step_ms=1, disorder_ms=0, rows_per_split=1, splits_per_look=1, interval_ms=None
)


@pytest.fixture
def environment() -> Iterator[Environment]:
    with mounted("here") as storage:
        yield Environment("here", storage, Program(behaviours={"op": SOURCE}), (STAGE_MS,))


def bridge_of(system: SeededSystem, environment: Environment) -> Ref:
    return system.spawn(Props(Bridge, descriptor(OperatorKind.SOURCE), SimulatedDataPlane(environment)), "bridge")


def explained_stages(system: SeededSystem, bridge: Ref) -> tuple[StageProgress, ...]:
    probe = TestProbe(system)
    bridge.tell(ExplainStages(reply_to=probe.ref))
    system.advance(0)
    return probe.expect_message(StagesExplained).stages


def test_each_query_is_answered_with_current_work_oldest_first(
    seeded_system: SeededSystem, environment: Environment
) -> None:
    bridge = bridge_of(seeded_system, environment)
    bridge.tell(OpenChain(restore=None))
    seeded_system.advance(1_000)
    environment.faults.slow_ms[VERTEX] = 3_000
    bridge.tell(ReadSplits(stage=7, splits=()))
    seeded_system.advance(100)
    bridge.tell(CommitCheckpoint(checkpoint_id=3))

    stages = explained_stages(seeded_system, bridge)
    seeded_system.advance(5_000)
    later = explained_stages(seeded_system, bridge)

    assert [(each.what, each.since_ms) for each in stages] == [
        ("stage 7 of 'op'", 1_000),
        ("committing checkpoint 3 of 'op'", 1_100),
    ]
    assert later == ()
