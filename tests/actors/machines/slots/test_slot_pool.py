"""A job's slots: free slots are used first, offers are idempotent, and all slots are returned at the end of the job."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.slots.slot_pool import (
    IDLE_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    PoolClosed,
    ReleaseEmptyTaskManager,
    ResourceManagerConnected,
    ResourceManagerDisconnected,
    SlotPool,
    SlotRequestRejected,
)
from flykka.messages.control.job_control import IdleSlotsDue
from flykka.messages.wire.ids import SlotRequestId
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots.slot_pool_events import (
    FIRST,
    JOB,
    JOB_MASTER,
    SECOND,
    answered,
    assigned,
    cancels_timer,
    connected,
    free_slots,
    frees,
    loses,
    lost,
    offered,
    pool,
    request_slot,
    returned,
    slot_request_failed,
    starts_timer,
    timed_out,
    wanted,
    withdraws,
)


def test_a_request_without_a_free_slot_is_sent_to_the_resource_manager() -> None:
    slots = pool()

    effects = feed(slots, wanted("r1"))

    assert effects == [starts_timer("r1"), request_slot("a-1")]


def test_an_offered_slot_serves_the_request_that_it_was_allocated_for() -> None:
    slots = pool()
    feed(slots, wanted("r1"), wanted("r2"))

    effects = feed(slots, offered("a-2"))

    assert effects == [answered("a-2"), cancels_timer("r2"), assigned("r2", "a-2")]


def test_a_repeated_offer_is_accepted_without_effect() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"))

    effects = feed(slots, offered("a-1"))

    assert effects == [answered("a-1")]


def test_an_allocation_is_not_accepted_in_two_slots() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"))

    effects = feed(slots, offered("a-1", first_index=1))

    assert effects == [answered()]


def test_slots_of_an_unknown_task_manager_are_refused() -> None:
    slots = pool()
    feed(slots, wanted("r1"))

    effects = feed(slots, offered("a-1", task_manager=SECOND))

    assert effects == [Ignore(reason="task-manager-2 is not connected")]


def test_an_unrequested_slot_stays_free_until_a_request_selects_it() -> None:
    slots = pool()
    feed(slots, offered("spare"))

    effects = feed(slots, wanted("r1", held="spare"))

    assert effects == [assigned("r1", "spare")]


def test_a_returned_slot_is_reused_without_a_new_request() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"), returned("r1"))

    effects = feed(slots, wanted("r2", held="a-1"))

    assert effects == [assigned("r2", "a-1")]


def test_a_returned_slot_serves_the_longest_waiting_request_and_withdraws_its_allocation() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"), wanted("r2"), wanted("r3"))

    effects = feed(slots, returned("r1"))

    assert effects == [cancels_timer("r2"), withdraws("a-2"), assigned("r2", "a-1")]


def test_a_request_cancelled_before_it_is_served_is_withdrawn() -> None:
    slots = pool()
    feed(slots, wanted("r1"))

    effects = feed(slots, returned("r1"))

    assert effects == [cancels_timer("r1"), withdraws("a-1")]


def test_the_slot_of_a_withdrawn_request_serves_another_request() -> None:
    slots = pool()
    feed(slots, wanted("r1"), wanted("r2"), returned("r1"))

    effects = feed(slots, offered("a-1"))

    assert effects == [answered("a-1"), cancels_timer("r2"), withdraws("a-2"), assigned("r2", "a-1")]


def test_a_slot_returned_twice_is_freed_once() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"), returned("r1"))

    effects = feed(slots, returned("r1"))

    assert effects == [Ignore(reason="r1 has no slot")]
    assert free_slots(slots) == ("a-1",)


def test_a_duplicate_request_to_the_pool_is_ignored() -> None:
    slots = pool()
    feed(slots, wanted("r1"))

    effects = feed(slots, wanted("r1"))

    assert effects == [Ignore(reason="the slot request r1 exists already")]


def test_requests_wait_for_a_resource_manager() -> None:
    slots = SlotPool("a", JOB, JOB_MASTER)

    before = feed(slots, wanted("r1"), wanted("r2"))
    after = feed(slots, ResourceManagerConnected())

    assert before == [starts_timer("r1"), starts_timer("r2")]
    assert after == [request_slot("a-1"), request_slot("a-2")]


def test_a_new_resource_manager_gets_the_unfulfilled_requests() -> None:
    slots = pool()
    feed(slots, wanted("r1"), wanted("r2"), offered("a-1"), ResourceManagerDisconnected())

    effects = feed(slots, ResourceManagerConnected())

    assert effects == [request_slot("a-2")]


def test_a_request_that_times_out_is_rejected_and_withdrawn() -> None:
    slots = pool()
    feed(slots, wanted("r1"))

    effects = feed(slots, timed_out("r1"))

    rejection = SlotRequestRejected(
        request_id=SlotRequestId("r1"),
        reason=f"no slot became free within {REQUEST_TIMEOUT_MS} ms",
    )
    assert effects == [cancels_timer("r1"), withdraws("a-1"), rejection]


def test_a_slot_that_arrives_after_its_request_timed_out_stays_available() -> None:
    slots = pool()
    feed(slots, wanted("r1"), timed_out("r1"))

    effects = feed(slots, offered("a-1"))

    assert effects == [answered("a-1")]
    assert free_slots(slots) == ("a-1",)


def test_a_timeout_after_the_slot_has_arrived_is_ignored() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"))

    effects = feed(slots, timed_out("r1"))

    assert effects == [Ignore(reason="r1 does not wait")]


def test_a_failed_allocation_rejects_its_request() -> None:
    slots = pool()
    feed(slots, wanted("r1"))

    effects = feed(slots, slot_request_failed("a-1", "none left"))

    assert effects == [
        cancels_timer("r1"),
        withdraws("a-1"),
        SlotRequestRejected(request_id=SlotRequestId("r1"), reason="none left", is_temporary=True),
    ]


def test_a_failed_allocation_removes_its_fulfilled_slot() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"))

    effects = feed(slots, slot_request_failed("a-1", "lost"))

    dismissal = ReleaseEmptyTaskManager(task_manager=FIRST, reason="lost")
    assert effects == [loses("r1", "a-1", "lost"), frees("a-1"), dismissal]
    assert slots.report(FIRST) == {}


def test_the_failure_of_an_unknown_allocation_is_ignored() -> None:
    slots = pool()

    effects = feed(slots, slot_request_failed("a-1", "lost"))

    assert effects == [Ignore(reason="a-1 is neither held nor requested")]


def test_a_lost_task_manager_loses_its_slots_and_no_others() -> None:
    slots = pool()
    feed(slots, connected(SECOND))
    feed(slots, wanted("r1"), wanted("r2"), wanted("r3"))
    feed(slots, offered("a-1", "spare"), offered("a-2", task_manager=SECOND))

    effects = feed(slots, lost(FIRST))

    assert effects == [loses("r1", "a-1", "killed"), loses("r2", "spare", "killed")]
    assert slots.report(SECOND) == {"task-manager-2/0": "a-2"}


def test_the_loss_of_a_task_manager_is_reported_once() -> None:
    slots = pool()
    loss = lost(FIRST)
    feed(slots, wanted("r1"), offered("a-1"), loss)

    effects = feed(slots, loss)

    assert effects == [Ignore(reason="task-manager-1 is not connected")]


def test_a_job_restarting_after_a_loss_requests_only_lost_slots() -> None:
    slots = pool()
    feed(slots, connected(SECOND), wanted("r1"), wanted("r2"))
    feed(slots, offered("a-1"), offered("a-2", task_manager=SECOND))
    feed(slots, lost(FIRST), returned("r1"), returned("r2"))

    effects = feed(slots, wanted("r1/1", held="a-2"), wanted("r2/1"))

    assert effects == [
        assigned("r1/1", "a-2", task_manager=SECOND),
        starts_timer("r2/1"),
        request_slot("a-3"),
    ]


def test_a_slot_that_is_idle_for_long_is_returned() -> None:
    slots = pool()
    feed(slots, offered("a-1"), now=0)

    before = feed(slots, IdleSlotsDue(), now=IDLE_TIMEOUT_MS - 1)
    after = feed(slots, IdleSlotsDue(), now=IDLE_TIMEOUT_MS)

    assert before == []
    assert after == [loses(None, "a-1", "it was idle"), frees("a-1")]
    assert free_slots(slots) == ()


def test_a_slot_in_use_is_never_idle() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1"))

    effects = feed(slots, IdleSlotsDue(), now=10 * IDLE_TIMEOUT_MS)

    assert effects == []


def test_all_slots_are_returned_at_the_end_of_the_job() -> None:
    slots = pool()
    feed(slots, wanted("r1"), offered("a-1", "spare"), wanted("r2", held="spare"), wanted("r3"))

    effects = feed(slots, PoolClosed())

    assert effects == [cancels_timer("r3"), withdraws("a-2"), frees("a-1"), frees("spare")]


def test_a_closed_slot_pool_accepts_no_slots() -> None:
    slots = pool()
    feed(slots, PoolClosed())

    effects = feed(slots, offered("a-1"), wanted("r1"))

    assert effects == [answered(), Ignore(reason="the job has ended")]
