"""Dynamic slots are allocated from the free resources of a TaskManager, and removed when they become free."""

from __future__ import annotations

import pytest

from flykka.actors.machines.effects import JobMasterOf, Tell
from flykka.actors.machines.slots.slot_manager import (
    AcceptTaskManager,
    ResourceManagerStarted,
    SlotManager,
)
from flykka.actors.machines.slots.slot_table import JobConnected
from flykka.actors.machines.slots.task_manager_slots import Usage
from flykka.actors.machines.slots.task_manager_tracker import StartTaskManager, WorkerCounts
from flykka.messages.control.registration import Heartbeat, SlotReport, SlotStatus, StartUpPeriodElapsed
from flykka.messages.control.slots import SlotOffer, SlotRequestFailed
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, slot_id
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots import slot_table_events as at_table
from tests.actors.machines.slots.slot_manager_events import (
    FIRST,
    SECOND,
    confirmed,
    freed,
    gives,
    manager,
    registered,
    registration_of_slots,
    requested,
)

TOTAL = ResourceSpec(cpu_millis=2_000, heap_mib=1_000)
QUARTER = ResourceSpec(cpu_millis=500, heap_mib=250)
HALF = ResourceSpec(cpu_millis=1_000, heap_mib=500)


def with_one(slots: int = 2) -> SlotManager:
    held = manager()
    feed(held, registration_of_slots(FIRST, slots, TOTAL))
    return held


# At the ResourceManager


def test_a_request_with_declared_resources_gets_a_slot_of_that_size() -> None:
    slots = with_one()

    effects = feed(slots, requested("a", resources=QUARTER))

    assert effects == [gives(FIRST, 2, "a", cut=QUARTER)]
    assert slots.usage(FIRST) == Usage(
        slots=3, free=1, total=TOTAL, remaining=ResourceSpec(cpu_millis=1_500, heap_mib=750)
    )


def test_dynamic_slots_reduce_the_resources_for_default_slots() -> None:
    slots = with_one()
    feed(slots, requested("a", resources=QUARTER), requested("b"))

    effects = feed(slots, requested("c"))

    assert effects == []
    assert slots.waiting_requests == ("c",)


def test_a_small_request_waits_while_default_slots_use_all_resources() -> None:
    slots = with_one()
    feed(slots, requested("a"), requested("b"))

    effects = feed(slots, requested("c", resources=QUARTER))

    assert effects == []
    assert slots.waiting_requests == ("c",)


def test_a_freed_dynamic_slot_is_removed_and_returns_its_resources() -> None:
    slots = with_one(slots=1)
    feed(slots, requested("a", resources=QUARTER), confirmed(FIRST, 1, "a"), requested("b"))

    effects = feed(slots, freed(FIRST, 1, "a"))

    assert effects == [gives(FIRST, 0, "b")]
    assert slots.slot_states.keys() == {slot_id(FIRST, 0)}


def test_the_index_of_a_dynamic_slot_is_not_reused() -> None:
    slots = with_one(slots=1)
    feed(slots, requested("a", resources=QUARTER), confirmed(FIRST, 1, "a"), freed(FIRST, 1, "a"))

    effects = feed(slots, requested("b", resources=QUARTER))

    assert effects == [gives(FIRST, 2, "b", cut=QUARTER)]


def test_unspecified_resources_of_a_request_default_to_those_of_a_default_slot() -> None:
    slots = with_one(slots=2)

    effects = feed(slots, requested("a", resources=ResourceSpec(cpu_millis=100)))

    assert effects == [gives(FIRST, 2, "a", cut=ResourceSpec(cpu_millis=100, heap_mib=500))]


def test_a_dynamic_slot_is_allocated_on_the_fullest_task_manager_with_room() -> None:
    slots = manager()
    feed(
        slots,
        registration_of_slots(FIRST, 2, TOTAL),
        registration_of_slots(SECOND, 2, TOTAL),
        requested("a", resources=HALF),
    )

    effects = feed(slots, requested("b", resources=QUARTER), requested("c", resources=TOTAL))

    assert effects == [gives(FIRST, 3, "b", cut=QUARTER), gives(SECOND, 2, "c", cut=TOTAL)]


def test_a_task_manager_without_declared_resources_has_no_dynamic_slots() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None))

    effects = feed(slots, requested("a", resources=HALF))

    assert effects == [gives(FIRST, 0, "a")]


def test_a_dynamic_slot_missing_from_the_report_is_removed() -> None:
    slots = with_one(slots=1)
    feed(slots, requested("a", resources=HALF), confirmed(FIRST, 1, "a"))

    own = SlotStatus(slot_id=slot_id(FIRST, 0), resources=TOTAL)
    feed(slots, Heartbeat(task_manager_id=FIRST, slot_report=SlotReport(slots=(own,), total=TOTAL)))

    assert slots.usage(FIRST) == Usage(slots=1, free=1, total=TOTAL, remaining=TOTAL)


def test_a_new_resource_manager_recovers_dynamic_slots_from_reports() -> None:
    slots = manager()
    own = SlotStatus(slot_id=slot_id(FIRST, 0), resources=TOTAL)
    cut = SlotStatus(
        slot_id=slot_id(FIRST, 4),
        allocation_id=AllocationId("a"),
        job_id=JobId("job-1"),
        resources=HALF,
        is_dynamic=True,
    )
    report = SlotReport(slots=(own, cut), total=TOTAL)

    feed(slots, registration_of_slots(FIRST, 1, TOTAL), Heartbeat(task_manager_id=FIRST, slot_report=report))

    assert slots.usage(FIRST) == Usage(slots=2, free=0, total=TOTAL, remaining=HALF)
    assert feed(slots, requested("b", resources=HALF)) == [gives(FIRST, 5, "b", cut=HALF)]


def test_a_request_larger_than_any_task_manager_is_refused_with_both_sizes() -> None:
    slots = with_one()
    feed(slots, StartUpPeriodElapsed())

    effects = feed(slots, requested("a", resources=ResourceSpec(cpu_millis=2_500)))

    reason = "no slot is large enough: it must have 2.5 cores, and the largest possible one has 2 cores, 1000 MiB of"
    failed = SlotRequestFailed(allocation_id=AllocationId("a"), reason=f"{reason} memory", is_unfulfillable=True)
    assert effects == [Tell(to=JobMasterOf(JobId("job-1")), message=failed)]


@pytest.mark.parametrize(("sizes", "started"), [([QUARTER] * 4, 1), ([HALF] * 3, 2), ([TOTAL] * 3, 3)])
def test_enough_task_managers_are_started_for_the_waiting_requests(sizes: list[ResourceSpec], started: int) -> None:
    workers = WorkerCounts(configured=0, maximum=9, slots=1, slot_size=TOTAL, total=TOTAL)
    slots = SlotManager(workers)
    feed(slots, ResourceManagerStarted())

    effects = feed(slots, *(requested(str(number), resources=size) for number, size in enumerate(sizes)))

    assert [type(effect) for effect in effects] == [StartTaskManager] * started


def test_waiting_requests_are_served_by_a_new_task_manager() -> None:
    slots = manager()
    feed(slots, requested("a", resources=HALF), requested("b"), requested("c", resources=HALF))

    effects = feed(slots, registration_of_slots(FIRST, 2, TOTAL))

    assert effects == [AcceptTaskManager(task_manager=FIRST), gives(FIRST, 2, "a", cut=HALF), gives(FIRST, 1, "b")]


# At the TaskManager


def test_a_dynamic_slot_is_offered_and_reported_with_its_size() -> None:
    held = at_table.slot_table(total=TOTAL)

    effects = at_table.effects_besides_timers(
        held, JobConnected(job_id=at_table.JOB), at_table.requested("a", index=2, cut=QUARTER)
    )

    offer = effects[-1].message.offers  # type: ignore[union-attr]
    assert offer == (SlotOffer(allocation_id=AllocationId("a"), slot_id=at_table.slot(2), resources=QUARTER),)
    assert [(status.resources, status.is_dynamic) for status in held.report().slots] == [
        (HALF, False),
        (HALF, False),
        (QUARTER, True),
    ]


def test_a_slot_larger_than_the_free_resources_is_refused() -> None:
    held = at_table.slot_table(total=TOTAL)
    at_table.effects_besides_timers(
        held, at_table.requested("a", index=0), at_table.requested("b", index=2, cut=QUARTER)
    )

    effects = at_table.effects_besides_timers(held, at_table.requested("c", index=1))

    assert effects == [at_table.refuses("c", index=1)]


def test_a_returned_dynamic_slot_frees_its_resources() -> None:
    held = at_table.slot_table(slots=1, total=TOTAL)
    at_table.effects_besides_timers(held, at_table.requested("a", index=1, cut=QUARTER))

    given_back = at_table.effects_besides_timers(held, at_table.free("a"))
    effects = at_table.effects_besides_timers(held, at_table.requested("b", index=0))

    assert given_back == [at_table.announces("a", index=1)]
    assert effects == [at_table.confirms("b", index=0)]
    assert held.slot_states.keys() == {at_table.slot(0)}
