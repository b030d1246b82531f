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
def test_the_first_checkpoint_waits_at_most_one_interval(
    interval_ms: int, min_pause_ms: int, first: int, second: int
) -> None:
    harness = two_tasks(interval_ms=interval_ms, min_pause_ms=min_pause_ms)
    harness.handle(StartCheckpointScheduler(job_id=JOB))

    harness.advance(first - 1)
    early = list(harness.machine.pending)
    harness.advance(1)
    due = harness.timers["periodic"]

    assert early == []
    assert [began.timestamp_ms for began in harness.machine.pending.values()] == [first]
    assert due == second


@pytest.mark.parametrize("delay_ms", [0, 700, 40_000])
def test_the_first_checkpoint_waits_for_the_configured_delay(delay_ms: int) -> None:
    harness = two_tasks(interval_ms=10_000, initial_delay_ms=delay_ms)

    harness.handle(StartCheckpointScheduler(job_id=JOB))

    assert harness.timers == {"periodic": delay_ms}


def test_a_random_initial_delay_lies_between_pause_and_interval() -> None:
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


def test_a_pause_above_the_interval_leaves_no_random_delay() -> None:
    harness = two_tasks(interval_ms=1_000, min_pause_ms=2_000, has_random_initial_delay=True)

    harness.handle(StartCheckpointScheduler(job_id=JOB))

    assert harness.timers == {"periodic": 2_000}


def test_the_pause_after_a_checkpoint_delays_the_schedule() -> None:
    harness = two_tasks(interval_ms=100, min_pause_ms=90)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.advance(100)
    harness.acknowledge("source", 1)
    harness.advance(40)
    harness.acknowledge("sink", 1)

    harness.advance(89)
    held = list(harness.machine.pending)
    harness.advance(1)

    assert held == []
    assert harness.machine.pending[2].timestamp_ms == 230


def test_the_periodic_scheduler_respects_the_minimum_pause() -> None:
    harness = two_tasks(interval_ms=100, min_pause_ms=250)
    harness.handle(StartCheckpointScheduler(job_id=JOB))

    harness.advance(600)

    assert [began.timestamp_ms for began in harness.machine.pending.values()] == [250, 500]


def test_a_late_tick_does_not_shift_later_ones() -> None:
    harness = two_tasks(interval_ms=100)
    harness.handle(StartCheckpointScheduler(job_id=JOB))

    harness.now = 130
    harness.handle(PeriodicTriggerDue())
    rearmed = harness.timers["periodic"]

    assert rearmed == 200


def test_a_checkpoint_due_before_all_tasks_run_is_taken_when_they_run() -> None:
    harness = Coordination(SOURCE, planned_task("sink", ExecutionState.DEPLOYING, is_source=False), interval_ms=1_000)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.advance(1_000)

    harness.advance(5)
    before = list(harness.machine.pending)
    harness.set_state("sink", ExecutionState.RUNNING)

    assert before == []
    assert harness.machine.pending[1].timestamp_ms == 1_005


def test_requests_keep_their_order_while_an_id_is_drawn() -> None:
    harness = two_tasks(max_concurrent=1)
    inner: list[list[events.CoordinatorEffect]] = []

    def meanwhile() -> None:
        harness.while_an_id_is_drawn = lambda: None
        inner.append(harness.trigger())

    harness.while_an_id_is_drawn = meanwhile
    harness.trigger()

    assert inner == [[]]
    assert list(harness.machine.pending) == [1]
    harness.decline("sink", 1)
    assert list(harness.machine.pending) == [2]


def test_the_periodic_scheduler_has_at_most_one_waiting_request() -> None:
    harness = two_tasks(interval_ms=100, max_concurrent=1)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.advance(950)

    harness.acknowledge("source", 1)
    harness.acknowledge("sink", 1)
    behind = list(harness.machine.pending)
    harness.acknowledge("source", 2)
    harness.acknowledge("sink", 2)

    assert behind == [2]
    assert list(harness.machine.pending) == []
    assert harness.effects(events.TriggerDeclined) == []
