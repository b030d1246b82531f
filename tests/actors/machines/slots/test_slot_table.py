"""A TaskManager's slots: each is allocated once, offered in one message at a time, and free after its last task."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.slots.slot_table import JobConnected, RunTask, TaskSlotState
from tests.actors.machines.scheduling.descriptors import descriptor
from tests.actors.machines.slots.slot_table_events import (
    JOB,
    OTHER_JOB,
    active,
    announces,
    answered,
    confirms,
    effects_besides_timers,
    fails_task,
    free,
    offers,
    refuses,
    rejects,
    requested,
    slot,
    slot_table,
    submitted,
    task_ended,
)


def test_an_allocated_slot_is_offered_when_the_job_master_is_known() -> None:
    held = slot_table()

    given = effects_besides_timers(held, requested("a"))
    connected = effects_besides_timers(held, JobConnected(job_id=JOB))

    assert given == [confirms("a")]
    assert connected == [offers(("a", 0))]
    assert held.slot_states[slot(0)] is TaskSlotState.ALLOCATED


def test_a_slot_for_a_connected_job_is_offered_at_once() -> None:
    held = active("a")

    effects = effects_besides_timers(held, requested("b", index=1))

    assert effects == [confirms("b", index=1), offers(("b", 1), number=2)]


def test_slots_allocated_during_an_offer_are_offered_after_its_reply() -> None:
    held = slot_table(slots=3)
    effects_besides_timers(held, JobConnected(job_id=JOB), requested("a", index=0))

    meanwhile = effects_besides_timers(held, requested("b", index=1), requested("c", index=2))
    afterwards = effects_besides_timers(held, answered("a"))

    assert meanwhile == [confirms("b", index=1), confirms("c", index=2)]
    assert afterwards == [offers(("b", 1), ("c", 2), number=2)]


def test_an_accepted_slot_is_active() -> None:
    held = active("a")

    assert held.slot_states == {slot(0): TaskSlotState.ACTIVE, slot(1): TaskSlotState.FREE}


def test_slots_offered_but_not_accepted_are_free_again() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a", index=0), requested("b", index=1), JobConnected(job_id=JOB))

    effects = effects_besides_timers(held, answered("b"))

    assert effects == [announces("a", index=0)]
    assert held.slot_states == {slot(0): TaskSlotState.FREE, slot(1): TaskSlotState.ACTIVE}


def test_a_duplicate_reply_to_an_offer_is_ignored() -> None:
    held = active("a")

    effects = effects_besides_timers(held, answered())

    assert effects == [Ignore(reason="job-1 has no offer 1 to answer")]


def test_a_repeated_allocation_gets_the_same_slot() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a"))

    effects = effects_besides_timers(held, requested("a"))

    assert effects == [confirms("a")]
    assert held.slot_states[slot(1)] is TaskSlotState.FREE


def test_an_occupied_slot_is_refused_with_its_holder() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a"))

    effects = effects_besides_timers(held, requested("b"))

    assert effects == [refuses("b", by="a")]


def test_an_allocation_gets_only_one_slot() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a", index=0))

    effects = effects_besides_timers(held, requested("a", index=1))

    assert effects == [refuses("a", index=1)]


def test_a_nonexistent_slot_is_refused() -> None:
    held = slot_table(slots=1)

    effects = effects_besides_timers(held, requested("a", index=7))

    assert effects == [refuses("a", index=7)]


def test_a_task_may_arrive_before_its_slot_offer_is_acknowledged() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a"), JobConnected(job_id=JOB))

    effects = effects_besides_timers(held, submitted("x", "a"))

    assert effects == [RunTask(descriptor=descriptor("x", allocation="a"))]
    assert held.slot_states[slot(0)] is TaskSlotState.ACTIVE


def test_tasks_can_share_a_slot() -> None:
    held = active("a")

    effects = effects_besides_timers(held, submitted("x", "a"), submitted("y", "a"))

    assert [type(effect) for effect in effects] == [RunTask, RunTask]


def test_a_task_is_started_only_once() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"))

    effects = effects_besides_timers(held, submitted("x", "a"))

    assert effects == [Ignore(reason="x was submitted before")]


def test_a_task_without_a_slot_is_rejected() -> None:
    held = active("a")

    effects = effects_besides_timers(held, submitted("x", "unknown"))

    assert effects == [
        rejects("x", "job-1 holds no slot by unknown"),
    ]


def test_a_job_runs_tasks_in_its_own_slots_only() -> None:
    held = active("a")

    effects = effects_besides_timers(held, submitted("x", "a", job=OTHER_JOB))

    assert effects == [
        rejects("x", "job-2 holds no slot by a", job=OTHER_JOB),
    ]


def test_a_slot_outlives_its_tasks_until_the_job_master_frees_it() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"))

    after_the_task = effects_besides_timers(held, task_ended("x"))
    after_the_job_master = effects_besides_timers(held, free("a"))

    assert after_the_task == []
    assert after_the_job_master == [announces("a")]


def test_a_freed_slot_stops_its_tasks_and_is_free_after_the_last() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"), submitted("y", "a"))

    freeing = effects_besides_timers(held, free("a"))
    first = effects_besides_timers(held, task_ended("x"))
    last = effects_besides_timers(held, task_ended("y"))

    assert freeing == [fails_task("x"), fails_task("y")]
    assert first == []
    assert last == [announces("a")]


def test_a_slot_being_released_accepts_no_task_and_no_allocation() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"), free("a"))

    effects = effects_besides_timers(held, submitted("y", "a"), requested("a"), requested("b"))

    assert effects == [
        rejects("y", "job-1 holds no slot by a"),
        refuses("a", by="a"),
        refuses("b", by="a"),
    ]


def test_freeing_a_slot_twice_is_idempotent() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"), free("a"))

    while_releasing = effects_besides_timers(held, free("a"))
    effects_besides_timers(held, task_ended("x"))
    afterwards = effects_besides_timers(held, free("a"))

    assert while_releasing == [Ignore(reason="task-manager-1/0 is being released")]
    assert afterwards == [Ignore(reason="a holds no slot here")]


def test_a_slot_freed_while_it_is_offered_does_not_become_active() -> None:
    held = slot_table()
    effects_besides_timers(held, requested("a"), JobConnected(job_id=JOB), free("a"))

    effects = effects_besides_timers(held, answered("a"))

    assert effects == []
    assert held.slot_states[slot(0)] is TaskSlotState.FREE
