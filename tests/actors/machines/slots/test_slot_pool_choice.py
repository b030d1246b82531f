"""The slot pool selects a request for an offered slot by reservation and by size, and lets batch requests wait."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_pool import REQUEST_TIMEOUT_MS, SlotRequestRejected, SlotReservationReleased
from flykka.messages.control.job_control import IdleSlotsDue
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, SlotRequestId
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots.slot_pool_events import (
    FIRST,
    SECOND,
    answered,
    assigned,
    cancels_timer,
    connected,
    loses,
    offered,
    pool,
    request_slot,
    returned,
    slot_request_failed,
    wanted,
    withdraws,
)

# Slots reserved for restarted attempts


def test_a_reserved_slot_serves_only_a_request_that_names_it() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"), wanted("r2"))

    kept = feed(slots, returned("r1", is_kept=True))
    chosen = slots.choose(UNSPECIFIED)
    named = feed(slots, wanted("r3", held="a-1"))

    assert kept == []
    assert chosen is None
    assert named == [assigned("r3", "a-1")]


def test_a_slot_that_is_no_longer_reserved_serves_waiting_requests() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"), wanted("r2"), returned("r1", is_kept=True))

    effects = feed(slots, SlotReservationReleased(allocation_id=AllocationId("a-1")))

    assert effects == [cancels_timer("r2"), withdraws("a-2"), assigned("r2", "a-1")]


# Offers of a slot that is known under a different allocation


def test_a_slot_offered_again_replaces_its_earlier_allocation() -> None:
    slots = pool()
    feed(slots, wanted("r1"), wanted("r2"), offered("a-1"))

    effects = feed(slots, offered("a-2"))

    lost = loses("r1", "a-1", "its TaskManager has allocated the slot again")
    assert effects == [answered("a-2"), lost, cancels_timer("r2"), assigned("r2", "a-2")]


# Sizes

SMALL, LARGE = ResourceSpec(cpu_millis=500, heap_mib=512), ResourceSpec(cpu_millis=1_000, heap_mib=1_024)


def test_a_returned_slot_skips_requests_that_need_a_larger_slot() -> None:
    slots = pool()
    feed(slots, wanted("r1", resources=SMALL), offered("a-1", resources=SMALL))
    feed(slots, wanted("r2", resources=LARGE), wanted("r3", resources=SMALL))

    effects = feed(slots, returned("r1"))

    assert effects == [cancels_timer("r3"), withdraws("a-3"), assigned("r3", "a-1", size=SMALL)]
    assert slots.pending_requests == ("r2",)


def test_the_free_slot_of_the_least_used_task_manager_is_selected() -> None:
    slots = pool()
    feed(slots, connected(SECOND))
    feed(slots, offered("x", "y"), offered("z", "u", task_manager=SECOND), wanted("r1", held="x"))

    assert slots.utilization(FIRST) == 0.5
    assert slots.choose(UNSPECIFIED) == "z"
    assert slots.choose(UNSPECIFIED, FIRST) == "y"


# Batch requests


def test_a_batch_request_waits_for_a_slot_in_use_without_a_timeout() -> None:
    slots = pool()
    feed(slots, wanted("r1", resources=LARGE), offered("a-1", resources=LARGE))

    effects = feed(slots, wanted("r2", resources=SMALL, is_batch=True))
    refused = feed(slots, slot_request_failed("a-2", "none left"))
    checked = feed(slots, IdleSlotsDue(), now=0) + feed(slots, IdleSlotsDue(), now=REQUEST_TIMEOUT_MS)

    assert effects == [request_slot("a-2", SMALL)]
    assert refused == [Ignore(reason="r2 waits for slots that the job has")]
    assert checked == []


def test_a_batch_request_times_out_if_no_slot_can_serve_it() -> None:
    slots = pool()
    feed(slots, wanted("r1", resources=SMALL), offered("a-1", resources=SMALL))
    feed(slots, wanted("r2", resources=LARGE, is_batch=True), IdleSlotsDue())

    early = feed(slots, IdleSlotsDue(), now=REQUEST_TIMEOUT_MS - 1)
    due = feed(slots, IdleSlotsDue(), now=REQUEST_TIMEOUT_MS)

    assert early == []
    assert [type(effect) for effect in due] == [type(withdraws("a-2")), SlotRequestRejected]


def test_a_batch_request_that_will_never_be_fulfilled_fails_at_once() -> None:
    slots = pool()
    feed(slots, wanted("r1", resources=LARGE, is_batch=True))

    effects = feed(slots, slot_request_failed("a-1", "too large", is_unfulfillable=True))

    assert effects == [
        withdraws("a-1"),
        SlotRequestRejected(request_id=SlotRequestId("r1"), reason="too large"),
    ]
