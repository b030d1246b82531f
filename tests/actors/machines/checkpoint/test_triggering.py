"""The times at which periodic checkpoints start."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.trigger import PeriodicTrigger
from flykka.messages.control.checkpoint_coordination import PeriodicTriggerDue, StartCheckpointScheduler
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    SOURCE,
    Coordination,
    planned_task,
    two_tasks,
)


@pytest.mark.parametrize(
    ("interval_ms", "min_pause_ms", "first", "second"),
    [(10_000, 0, 1_000, 11_000), (10_000, 4_000, 4_000, 14_000), (300, 0, 300, 600), (1_000, 2_000, 2_000, 4_000)],
)
def test_the_first_checkpoint_waits_a_second_or_the_pause_but_no_longer_than_the_interval(
    interval_ms: int, min_pause_ms: int, first: int, second: int
) -> None:
    world = two_tasks(interval_ms=interval_ms, min_pause_ms=min_pause_ms)
    world.handle(StartCheckpointScheduler(job_id=JOB))

    world.advance(first - 1)
    early = list(world.machine.pending)
    world.advance(1)
    due = world.timers["periodic"]

    assert early == []
    assert [began.timestamp_ms for began in world.machine.pending.values()] == [first]
    assert due == second


@pytest.mark.parametrize("delay_ms", [0, 700, 40_000])
def test_the_first_checkpoint_waits_for_the_configured_delay(delay_ms: int) -> None:
    world = two_tasks(interval_ms=10_000, initial_delay_ms=delay_ms)

    world.handle(StartCheckpointScheduler(job_id=JOB))

    assert world.timers == {"periodic": delay_ms}


def test_a_random_delay_is_drawn_for_each_job_between_the_pause_and_the_interval_and_always_alike() -> None:
    settings = CheckpointingSettings(
        directory="", interval_ms=10_000, min_pause_ms=4_000, has_random_initial_delay=True
    )

    def delay(job: str) -> int:
        [started] = PeriodicTrigger(settings, JobId(job)).start(0)
        return started.delay_ms

    delays = [delay(f"job {number}") for number in range(1_000)]

    assert min(delays) in range(4_000, 4_100)
    assert max(delays) in range(9_900, 10_001)
    assert len(set(delays)) > 800
    assert delays == [delay(f"job {number}") for number in range(1_000)]


def test_a_pause_above_the_interval_leaves_nothing_to_draw() -> None:
    world = two_tasks(interval_ms=1_000, min_pause_ms=2_000, has_random_initial_delay=True)

    world.handle(StartCheckpointScheduler(job_id=JOB))

    assert world.timers == {"periodic": 2_000}


def test_the_pause_after_a_checkpoint_holds_the_next_one_and_moves_the_clockwork() -> None:
    world = two_tasks(interval_ms=100, min_pause_ms=90)
    world.handle(StartCheckpointScheduler(job_id=JOB))
    world.advance(100)
    world.acknowledge("source", 1)
    world.advance(40)
    world.acknowledge("sink", 1)

    world.advance(89)
    held = list(world.machine.pending)
    world.advance(1)

    assert held == []
    assert world.machine.pending[2].timestamp_ms == 230


def test_the_clockwork_does_not_ask_more_often_than_the_pause_allows() -> None:
    world = two_tasks(interval_ms=100, min_pause_ms=250)
    world.handle(StartCheckpointScheduler(job_id=JOB))

    world.advance(600)

    assert [began.timestamp_ms for began in world.machine.pending.values()] == [250, 500]


def test_a_late_tick_does_not_shift_later_ones() -> None:
    world = two_tasks(interval_ms=100)
    world.handle(StartCheckpointScheduler(job_id=JOB))

    world.now = 130
    world.handle(PeriodicTriggerDue())
    rearmed = world.timers["periodic"]

    assert rearmed == 200


def test_a_checkpoint_that_was_due_before_all_tasks_ran_is_taken_when_they_do() -> None:
    world = Coordination(SOURCE, planned_task("sink", ExecutionState.DEPLOYING, is_source=False), interval_ms=1_000)
    world.handle(StartCheckpointScheduler(job_id=JOB))
    world.advance(1_000)

    world.advance(5)
    before = list(world.machine.pending)
    world.set_state("sink", ExecutionState.RUNNING)

    assert before == []
    assert world.machine.pending[1].timestamp_ms == 1_005


def test_requests_do_not_overtake_each_other_while_an_id_is_drawn() -> None:
    world = two_tasks(max_concurrent=1)
    inner: list[list[events.CoordinatorEffect]] = []

    def meanwhile() -> None:
        world.while_an_id_is_drawn = lambda: None
        inner.append(world.trigger())

    world.while_an_id_is_drawn = meanwhile
    world.trigger()

    assert inner == [[]]
    assert list(world.machine.pending) == [1]
    world.decline("sink", 1)
    assert list(world.machine.pending) == [2]


def test_the_clockwork_has_one_request_waiting_however_long_a_checkpoint_takes() -> None:
    world = two_tasks(interval_ms=100, max_concurrent=1)
    world.handle(StartCheckpointScheduler(job_id=JOB))
    world.advance(950)

    world.acknowledge("source", 1)
    world.acknowledge("sink", 1)
    behind = list(world.machine.pending)
    world.acknowledge("source", 2)
    world.acknowledge("sink", 2)

    assert behind == [2]
    assert list(world.machine.pending) == []
    assert world.effects(events.TriggerDeclined) == []
