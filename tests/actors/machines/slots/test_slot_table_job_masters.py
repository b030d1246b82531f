"""A TaskManager's slots when JobMasters are lost, replaced, unresponsive or inconsistent, and when the TaskManager
ends.
"""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.slots.slot_table import (
    AllocationsKnown,
    End,
    JobConnected,
    JobDisconnected,
    JobLost,
    TaskSlotState,
)
from flykka.messages.control.registration import ReleaseTaskManager, SlotReport, SlotStatus
from flykka.messages.control.slots import OfferTimedOut, SlotTimedOut
from flykka.messages.wire.ids import AllocationId
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots.slot_table_events import (
    JOB,
    OTHER_JOB,
    active,
    announces,
    answered,
    cancels_offer_timer,
    cancels_slot_timer,
    confirms,
    effects_besides_timers,
    fails_slot,
    fails_task,
    offers,
    refuses,
    requested,
    slot,
    slot_table,
    starts_slot_timer,
    submitted,
    task_ended,
)


def test_a_lost_job_master_loses_its_slots_and_no_others() -> None:
    held = slot_table(slots=3)
    effects_besides_timers(
        held, requested("a", 0), requested("b", 1), requested("c", 2, job=OTHER_JOB), submitted("x", "a")
    )

    effects = effects_besides_timers(held, JobDisconnected(job_id=JOB))

    assert effects == [fails_task("x"), announces("b", index=1)]
    assert held.slot_states == {
        slot(0): TaskSlotState.RELEASING,
        slot(1): TaskSlotState.FREE,
        slot(2): TaskSlotState.ALLOCATED,
    }


def test_a_new_job_master_is_offered_only_its_own_slots() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"), JobDisconnected(job_id=JOB), JobConnected(job_id=JOB))

    effects = effects_besides_timers(held, requested("b", index=1), task_ended("x"))

    assert effects == [confirms("b", index=1), offers(("b", 1)), announces("a")]


def test_the_slot_report_lists_the_holders() -> None:
    held = slot_table()

    before = held.report()
    effects_besides_timers(held, requested("a", index=1))
    after = held.report()

    free_slot = SlotStatus(slot_id=slot(0))
    assert before == SlotReport(slots=(free_slot, SlotStatus(slot_id=slot(1))))
    assert after == SlotReport(
        slots=(free_slot, SlotStatus(slot_id=slot(1), allocation_id=AllocationId("a"), job_id=JOB)),
    )


# Unanswered offers


def test_an_unanswered_offer_is_repeated() -> None:
    held = slot_table()
    effects_besides_timers(held, JobConnected(job_id=JOB), requested("a", index=0), requested("b", index=1))

    again = effects_besides_timers(held, OfferTimedOut(job_id=JOB, offer=1))
    answer = effects_besides_timers(held, answered("a"))
    late = effects_besides_timers(held, answered("a"))

    assert again == [offers(("a", 0))]
    assert answer == [offers(("b", 1), number=2)]
    assert late == [Ignore(reason="job-1 has no offer 1 to answer")]
    assert held.slot_states == {slot(0): TaskSlotState.ACTIVE, slot(1): TaskSlotState.ALLOCATED}


def test_the_timeout_of_an_answered_offer_is_ignored() -> None:
    held = active("a")

    effects = effects_besides_timers(held, OfferTimedOut(job_id=JOB, offer=1))

    assert effects == [Ignore(reason="offer 1 to job-1 does not wait for an answer")]


def test_a_slot_that_no_job_master_accepts_is_freed() -> None:
    held = slot_table()

    given = feed(held, requested("a"))
    effects = feed(held, SlotTimedOut(allocation_id=AllocationId("a")))

    cancelled = cancels_slot_timer("a")
    assert given == [starts_slot_timer("a"), confirms("a")]
    assert effects == [cancelled, announces("a")]


def test_an_accepted_slot_has_no_timeout() -> None:
    held = slot_table()
    feed(held, requested("a"), JobConnected(job_id=JOB))

    taken = feed(held, answered("a"))
    effects = feed(held, SlotTimedOut(allocation_id=AllocationId("a")))

    assert taken == [cancels_offer_timer(), cancels_slot_timer("a")]
    assert effects == [Ignore(reason="a does not wait")]


# Reconciliation


def test_both_sides_drop_allocations_unknown_to_the_other() -> None:
    held = slot_table()
    effects_besides_timers(held, JobConnected(job_id=JOB), requested("both"), answered("both"))
    effects_besides_timers(held, requested("only-here", index=1), answered("only-here", number=2))

    known = (AllocationId("both"), AllocationId("only-there"))
    effects = effects_besides_timers(held, AllocationsKnown(job_id=JOB, allocations=known))

    failed = fails_slot("only-there")
    assert effects == [failed, announces("only-here", index=1)]


def test_an_offered_slot_may_be_unknown_to_the_job_master() -> None:
    held = slot_table()
    effects_besides_timers(held, JobConnected(job_id=JOB), requested("a"))

    effects = effects_besides_timers(held, AllocationsKnown(job_id=JOB, allocations=()))

    assert effects == []


def test_an_unresponsive_job_master_loses_its_tasks_and_is_reoffered_idle_slots() -> None:
    held = active("a")
    effects_besides_timers(held, requested("b", index=1), answered("b", number=2), submitted("x", "a"))

    lost = feed(held, JobLost(job_id=JOB))
    back = effects_besides_timers(held, JobConnected(job_id=JOB))

    assert lost == [fails_task("x"), starts_slot_timer("b")]
    assert back == [offers(("b", 1), number=3)]


# Closing


def test_a_closed_slot_table_waits_for_the_last_task() -> None:
    held = active("a")
    effects_besides_timers(held, submitted("x", "a"))

    closing = effects_besides_timers(held, ReleaseTaskManager())
    refused = effects_besides_timers(held, requested("b", index=1))
    last = effects_besides_timers(held, task_ended("x"))

    assert closing == [fails_task("x")]
    assert refused == [refuses("b", index=1)]
    assert last == [announces("a"), End()]


def test_a_slot_table_without_tasks_is_closed_at_once() -> None:
    held = active("a")

    effects = effects_besides_timers(held, ReleaseTaskManager())

    assert effects == [announces("a"), End()]
