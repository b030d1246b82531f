"""A TaskManager's slots: given once, offered one answer at a time, free only when their last task has ended."""

from __future__ import annotations

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.slot_table import SlotTable, TaskSlotState
from flykka.actors.scheduling.slot_table_events import (
    AllocationRequested,
    AnnounceFreeSlot,
    ConfirmAllocation,
    JobConnected,
    JobDisconnected,
    OfferAnswered,
    OfferToJobMaster,
    RefuseAllocation,
    RejectTask,
    RunTask,
    SlotFreeRequested,
    StopTask,
    TaskEnded,
    TaskSubmitted,
)
from flykka.messages.ids import AllocationId, ExecutionAttemptId, JobId, SlotId, TaskManagerId, slot_id
from flykka.messages.registration import SlotReport, SlotStatus
from flykka.messages.slots import SlotOffer
from tests.actors.scheduling.descriptors import descriptor
from tests.actors.scheduling.feeding import feed

HERE = TaskManagerId("task-manager-1")
JOB = JobId("job-1")
OTHER_JOB = JobId("job-2")


def slot(index: int) -> SlotId:
    return slot_id(HERE, index)


def requested(allocation: str, index: int = 0, job: JobId = JOB) -> AllocationRequested:
    return AllocationRequested(slot_id=slot(index), job_id=job, allocation_id=AllocationId(allocation))


def confirms(allocation: str, index: int = 0, job: JobId = JOB) -> ConfirmAllocation:
    return ConfirmAllocation(slot_id=slot(index), job_id=job, allocation_id=AllocationId(allocation))


def refuses(allocation: str, index: int = 0, by: str | None = None) -> RefuseAllocation:
    return RefuseAllocation(
        slot_id=slot(index),
        allocation_id=AllocationId(allocation),
        occupied_by=None if by is None else AllocationId(by),
    )


def offers(*allocations: tuple[str, int], job: JobId = JOB) -> OfferToJobMaster:
    return OfferToJobMaster(
        job_id=job,
        offers=tuple(SlotOffer(allocation_id=AllocationId(name), slot_id=slot(index)) for name, index in allocations),
    )


def answered(*accepted: str, job: JobId = JOB) -> OfferAnswered:
    return OfferAnswered(job_id=job, accepted=tuple(AllocationId(each) for each in accepted))


def submitted(attempt: str, allocation: str, job: JobId = JOB) -> TaskSubmitted:
    return TaskSubmitted(descriptor=descriptor(attempt, allocation=allocation, job=job))


def ended(attempt: str) -> TaskEnded:
    return TaskEnded(attempt=ExecutionAttemptId(attempt))


def free(allocation: str) -> SlotFreeRequested:
    return SlotFreeRequested(allocation_id=AllocationId(allocation))


def announces(allocation: str, index: int = 0) -> AnnounceFreeSlot:
    return AnnounceFreeSlot(slot_id=slot(index), allocation_id=AllocationId(allocation))


def table(slots: int = 2) -> SlotTable:
    return SlotTable(HERE, slots)


def active(allocation: str = "a", slots: int = 2) -> SlotTable:
    """A table whose first slot the job has taken."""
    held = table(slots)
    feed(held, requested(allocation), JobConnected(job_id=JOB), answered(allocation))
    return held


def test_a_free_slot_is_given_and_offered_as_soon_as_the_job_master_is_there() -> None:
    held = table()

    given = feed(held, requested("a"))
    connected = feed(held, JobConnected(job_id=JOB))

    assert given == [confirms("a")]
    assert connected == [offers(("a", 0))]
    assert held.slot_states[slot(0)] is TaskSlotState.ALLOCATED


def test_a_slot_for_a_connected_job_is_offered_at_once() -> None:
    held = active("a")

    effects = feed(held, requested("b", index=1))

    assert effects == [confirms("b", index=1), offers(("b", 1))]


def test_what_comes_while_an_offer_is_under_way_is_offered_behind_its_answer() -> None:
    held = table(slots=3)
    feed(held, JobConnected(job_id=JOB), requested("a", index=0))

    meanwhile = feed(held, requested("b", index=1), requested("c", index=2))
    afterwards = feed(held, answered("a"))

    assert meanwhile == [confirms("b", index=1), confirms("c", index=2)]
    assert afterwards == [offers(("b", 1), ("c", 2))]


def test_an_accepted_slot_is_active() -> None:
    held = active("a")

    assert held.slot_states == {slot(0): TaskSlotState.ACTIVE, slot(1): TaskSlotState.FREE}


def test_what_was_offered_and_not_accepted_is_free_again() -> None:
    held = table()
    feed(held, requested("a", index=0), requested("b", index=1), JobConnected(job_id=JOB))

    effects = feed(held, answered("b"))

    assert effects == [announces("a", index=0)]
    assert held.slot_states == {slot(0): TaskSlotState.FREE, slot(1): TaskSlotState.ACTIVE}


def test_an_answer_counts_once() -> None:
    held = active("a")

    effects = feed(held, answered())

    assert effects == [Ignore(reason="job-1 has no offer to answer")]


def test_the_same_allocation_is_given_the_same_slot_again() -> None:
    held = table()
    feed(held, requested("a"))

    effects = feed(held, requested("a"))

    assert effects == [confirms("a")]
    assert held.slot_states[slot(1)] is TaskSlotState.FREE


def test_a_slot_that_is_held_is_refused_and_the_holder_named() -> None:
    held = table()
    feed(held, requested("a"))

    effects = feed(held, requested("b"))

    assert effects == [refuses("b", by="a")]


def test_an_allocation_gets_no_second_slot() -> None:
    held = table()
    feed(held, requested("a", index=0))

    effects = feed(held, requested("a", index=1))

    assert effects == [refuses("a", index=1)]


def test_a_slot_that_does_not_exist_is_refused() -> None:
    held = table(slots=1)

    effects = feed(held, requested("a", index=7))

    assert effects == [refuses("a", index=7)]


def test_a_task_may_arrive_before_its_slot_offer_is_acknowledged() -> None:
    held = table()
    feed(held, requested("a"), JobConnected(job_id=JOB))

    effects = feed(held, submitted("x", "a"))

    assert effects == [RunTask(descriptor=descriptor("x", allocation="a"))]
    assert held.slot_states[slot(0)] is TaskSlotState.ACTIVE


def test_tasks_share_a_slot() -> None:
    held = active("a")

    effects = feed(held, submitted("x", "a"), submitted("y", "a"))

    assert [type(effect) for effect in effects] == [RunTask, RunTask]


def test_a_task_is_run_once() -> None:
    held = active("a")
    feed(held, submitted("x", "a"))

    effects = feed(held, submitted("x", "a"))

    assert effects == [Ignore(reason="x was submitted before")]


def test_a_task_without_a_slot_is_rejected() -> None:
    held = active("a")

    effects = feed(held, submitted("x", "unknown"))

    assert effects == [
        RejectTask(job_id=JOB, attempt=ExecutionAttemptId("x"), reason="job-1 holds no slot by unknown"),
    ]


def test_a_job_runs_tasks_in_its_own_slots_only() -> None:
    held = active("a")

    effects = feed(held, submitted("x", "a", job=OTHER_JOB))

    assert effects == [
        RejectTask(job_id=OTHER_JOB, attempt=ExecutionAttemptId("x"), reason="job-2 holds no slot by a"),
    ]


def test_a_slot_outlives_its_tasks_until_the_job_master_frees_it() -> None:
    held = active("a")
    feed(held, submitted("x", "a"))

    after_the_task = feed(held, ended("x"))
    after_the_job_master = feed(held, free("a"))

    assert after_the_task == []
    assert after_the_job_master == [announces("a")]


def test_a_slot_with_tasks_stops_them_and_is_free_when_the_last_has_ended() -> None:
    held = active("a")
    feed(held, submitted("x", "a"), submitted("y", "a"))

    freeing = feed(held, free("a"))
    first = feed(held, ended("x"))
    last = feed(held, ended("y"))

    assert freeing == [StopTask(attempt=ExecutionAttemptId("x")), StopTask(attempt=ExecutionAttemptId("y"))]
    assert first == []
    assert last == [announces("a")]


def test_a_slot_that_is_being_given_up_takes_no_task_and_no_allocation() -> None:
    held = active("a")
    feed(held, submitted("x", "a"), free("a"))

    effects = feed(held, submitted("y", "a"), requested("a"), requested("b"))

    assert effects == [
        RejectTask(job_id=JOB, attempt=ExecutionAttemptId("y"), reason="job-1 holds no slot by a"),
        refuses("a", by="a"),
        refuses("b", by="a"),
    ]


def test_freeing_twice_is_freeing_once() -> None:
    held = active("a")
    feed(held, submitted("x", "a"), free("a"))

    while_releasing = feed(held, free("a"))
    feed(held, ended("x"))
    afterwards = feed(held, free("a"))

    assert while_releasing == [Ignore(reason="task-manager-1/0 is being given up")]
    assert afterwards == [Ignore(reason="a holds no slot here")]


def test_a_slot_freed_while_it_is_offered_is_not_active_afterwards() -> None:
    held = table()
    feed(held, requested("a"), JobConnected(job_id=JOB), free("a"))

    effects = feed(held, answered("a"))

    assert effects == []
    assert held.slot_states[slot(0)] is TaskSlotState.FREE


def test_a_lost_job_master_gives_up_all_its_slots_and_no_others() -> None:
    held = table(slots=3)
    feed(held, requested("a", 0), requested("b", 1), requested("c", 2, job=OTHER_JOB), submitted("x", "a"))

    effects = feed(held, JobDisconnected(job_id=JOB))

    assert effects == [StopTask(attempt=ExecutionAttemptId("x")), announces("b", index=1)]
    assert held.slot_states == {
        slot(0): TaskSlotState.RELEASING,
        slot(1): TaskSlotState.FREE,
        slot(2): TaskSlotState.ALLOCATED,
    }


def test_a_job_master_that_takes_over_is_offered_its_own_slots_only() -> None:
    held = active("a")
    feed(held, submitted("x", "a"), JobDisconnected(job_id=JOB), JobConnected(job_id=JOB))

    effects = feed(held, requested("b", index=1), ended("x"))

    assert effects == [confirms("b", index=1), offers(("b", 1)), announces("a")]


def test_the_report_says_who_holds_what() -> None:
    held = table()

    before = held.report()
    feed(held, requested("a", index=1))
    after = held.report()

    free_slot = SlotStatus(slot_id=slot(0))
    assert before == SlotReport(slots=(free_slot, SlotStatus(slot_id=slot(1))))
    assert after == SlotReport(
        slots=(free_slot, SlotStatus(slot_id=slot(1), allocation_id=AllocationId("a"), job_id=JOB)),
    )
