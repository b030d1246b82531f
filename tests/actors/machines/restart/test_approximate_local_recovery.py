"""With approximate local recovery a failed task restarts with the tasks downstream of it, but no task upstream."""

from __future__ import annotations

import pytest

from flykka.actors.machines.restart.failure_handler import (
    ApproximateLocalRecoveryFailoverStrategy,
    PartitionAvailability,
    RestartPipelinedRegionFailoverStrategy,
)
from flykka.actors.machines.scheduling.topology import Exchange, SchedulingTopology

TASKS = ("source", "other source", "join", "left sink", "right sink")


def exchange(producers: tuple[str, ...], consumers: tuple[str, ...]) -> Exchange[str]:
    return Exchange(result=producers, producers=producers, consumers=consumers, is_blocking=False)


def strategy(*finished: str) -> ApproximateLocalRecoveryFailoverStrategy[str]:
    topology = SchedulingTopology(
        TASKS,
        [
            exchange(("source",), ("join",)),
            exchange(("other source",), ("join", "right sink")),
            exchange(("join",), ("left sink",)),
        ],
    )
    regional = RestartPipelinedRegionFailoverStrategy(topology, PartitionAvailability())
    return ApproximateLocalRecoveryFailoverStrategy(topology, regional, finished.__contains__)


@pytest.mark.parametrize(
    ("failed", "restarted"),
    [
        (["left sink"], {"left sink"}),
        (["join"], {"join", "left sink"}),
        (["source"], {"source", "join", "left sink"}),
        (["left sink", "right sink"], {"left sink", "right sink"}),
        (["other source"], {"other source", "join", "left sink", "right sink"}),
    ],
)
def test_tasks_upstream_of_a_failed_task_continue(failed: list[str], restarted: set[str]) -> None:
    assert strategy().tasks_to_restart(failed) == restarted


def test_a_region_restarts_if_its_upstream_task_has_finished() -> None:
    assert strategy("join").tasks_to_restart(["left sink"]) == set(TASKS)


def test_finished_tasks_of_other_regions_are_not_restarted() -> None:
    assert strategy("right sink").tasks_to_restart(["left sink"]) == {"left sink"}
