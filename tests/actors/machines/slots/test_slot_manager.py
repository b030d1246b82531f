"""The ResourceManager's slots: requests are fulfilled, reports of TaskManagers take precedence, lost slots are
replaced.
"""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.slots.slot_manager import (
    AcceptTaskManager,
    ForgetTaskManager,
    ResourceManagerStarted,
    SlotManager,
)
from flykka.actors.machines.slots.slot_table import JobDisconnected
from flykka.actors.machines.slots.task_manager_slots import SlotState
from flykka.actors.machines.slots.task_manager_tracker import START_RETRY_MS, StartTaskManager, WorkerCounts
from flykka.messages.control.registration import (
    AskForRelease,
    HeartbeatDue,
    RefuseRegistration,
    ReleaseAnswer,
    ReleaseTaskManager,
)
from flykka.messages.control.slots import CancelSlotRequest, SlotRequestFailed
from flykka.messages.wire.ids import AllocationId, JobId, TaskManagerId, slot_id
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots.slot_manager_events import (
    FIRST,
    SECOND,
    THIRD,
    allocation_refused,
    confirmed,
    fails,
    freed,
    gives,
    gone,
    manager,
    registered,
    requested,
    slot_heartbeat,
)


def test_the_configured_number_of_task_managers_is_started_with_numbered_names() -> None:
    slots = SlotManager(WorkerCounts(configured=2))

    effects = feed(slots, ResourceManagerStarted())

    assert effects == [StartTaskManager(task_manager=FIRST), StartTaskManager(task_manager=SECOND)]


def test_a_lost_task_manager_is_replaced_at_once_under_a_new_name() -> None:
    slots = manager(task_managers=2)
    feed(slots, registered(FIRST, None), registered(SECOND, None))

    effects = feed(slots, gone(SECOND))

    assert effects == [StartTaskManager(task_manager=THIRD)]


def test_a_task_manager_that_ended_before_registering_is_replaced_after_a_delay() -> None:
    slots = manager(task_managers=1)

    effects = feed(slots, gone(FIRST))

    assert effects == [StartTaskManager(task_manager=SECOND, delay_ms=START_RETRY_MS)]


def test_the_loss_of_a_task_manager_is_handled_once() -> None:
    slots = manager(task_managers=1)
    feed(slots, registered(FIRST, None), gone(FIRST))

    effects = feed(slots, gone(FIRST))

    assert effects == [Ignore(reason="task-manager-1 is not known")]


def test_a_task_manager_given_up_is_refused_when_it_returns() -> None:
    slots = manager(task_managers=1)
    feed(slots, registered(FIRST, None), gone(FIRST))

    effects = feed(slots, registered(FIRST, None))

    refusal = RefuseRegistration(reason="task-manager-1 was given up and replaced")
    assert effects == [Tell(to=FIRST, message=refusal), ForgetTaskManager(task_manager=FIRST)]


def test_a_task_manager_started_elsewhere_is_accepted() -> None:
    slots = manager(task_managers=0)

    effects = feed(slots, registered(TaskManagerId("guest"), None), requested("a"))

    assert effects == [AcceptTaskManager(task_manager=TaskManagerId("guest")), gives(TaskManagerId("guest"), 0, "a")]


def test_a_request_gets_a_free_slot_which_is_then_pending() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None))

    effects = feed(slots, requested("a"))

    assert effects == [gives(FIRST, 0, "a")]
    assert slots.slot_states == {slot_id(FIRST, 0): SlotState.PENDING}


def test_a_confirmed_slot_is_allocated() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"))

    effects = feed(slots, confirmed(FIRST, 0, "a"))

    assert effects == []
    assert slots.slot_states == {slot_id(FIRST, 0): SlotState.ALLOCATED}


def test_a_request_without_a_free_slot_waits() -> None:
    slots = manager()

    before = feed(slots, requested("a"))
    after = feed(slots, registered(FIRST, None))

    assert before == []
    assert after == [AcceptTaskManager(task_manager=FIRST), gives(FIRST, 0, "a")]


def test_waiting_requests_are_served_in_order() -> None:
    slots = manager()
    feed(slots, requested("a"), requested("b"), requested("c"))

    effects = feed(slots, registered(FIRST, None, None))

    assert effects[1:] == [gives(FIRST, 0, "a"), gives(FIRST, 1, "b")]
    assert slots.waiting_requests == ("c",)


def test_slots_are_allocated_evenly_in_the_order_of_registration() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), registered(SECOND, None, None))

    effects = feed(slots, *(requested(allocation) for allocation in "abcd"))

    assert effects == [gives(FIRST, 0, "a"), gives(SECOND, 0, "b"), gives(FIRST, 1, "c"), gives(SECOND, 1, "d")]


def test_a_task_manager_with_more_slots_serves_more_requests() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None, None, None), registered(SECOND, None, "x"))

    effects = feed(slots, *(requested(allocation) for allocation in "abc"))

    assert effects == [gives(FIRST, 0, "a"), gives(FIRST, 1, "b"), gives(FIRST, 2, "c")]


def test_a_duplicate_request_is_ignored() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), requested("a"))

    while_pending = feed(slots, requested("a"))
    feed(slots, confirmed(FIRST, 0, "a"))
    while_allocated = feed(slots, requested("a"))

    assert while_pending == while_allocated == [Ignore(reason="a was requested before")]


def test_an_allocation_id_may_be_reused_after_its_slot_is_freed() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"), confirmed(FIRST, 0, "a"), freed(FIRST, 0, "a"))

    effects = feed(slots, requested("a", job="job-2"))

    assert effects == [gives(FIRST, 0, "a", job="job-2")]


def test_a_freed_slot_is_allocated_to_the_next_request() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"), confirmed(FIRST, 0, "a"), requested("b"))

    effects = feed(slots, freed(FIRST, 0, "a"))

    assert effects == [gives(FIRST, 0, "b")]


def test_a_slot_is_freed_only_by_its_current_allocation() -> None:
    slots = manager()
    feed(slots, registered(FIRST, "a"))

    effects = feed(slots, freed(FIRST, 0, "b"))

    assert effects == [Ignore(reason="task-manager-1/0 is not held by b")]


def test_a_cancelled_requests_pending_slot_is_given_to_the_next_request() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"), requested("b"))

    effects = feed(slots, CancelSlotRequest(allocation_id=AllocationId("a")))

    assert effects == [gives(FIRST, 0, "b")]


def test_a_late_cancellation_leaves_the_slot_allocated_until_freed() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), requested("a"))
    feed(slots, CancelSlotRequest(allocation_id=AllocationId("a")), requested("b"), requested("c"))

    effects = feed(slots, confirmed(FIRST, 0, "a"))

    assert effects == []
    assert slots.slot_states[slot_id(FIRST, 0)] is SlotState.ALLOCATED
    assert slots.waiting_requests == ("c",)


def test_a_refused_request_tries_another_slot_first() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), registered(SECOND, None), requested("a"))

    effects = feed(slots, allocation_refused(FIRST, 0, "a"))

    assert effects == [gives(SECOND, 0, "a")]
    assert slots.slot_states[slot_id(FIRST, 0)] is SlotState.FREE


def test_a_refused_request_without_another_slot_waits_for_the_next_report() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"))

    at_once = feed(slots, allocation_refused(FIRST, 0, "a"))
    later = feed(slots, slot_heartbeat(FIRST, None))

    assert at_once == []
    assert later == [gives(FIRST, 0, "a")]


def test_a_refusal_that_names_the_holder_marks_the_slot_as_allocated() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), requested("a"))

    effects = feed(slots, allocation_refused(FIRST, 0, "a", by="z"))

    assert effects == [gives(FIRST, 1, "a")]
    assert slots.slot_states[slot_id(FIRST, 0)] is SlotState.ALLOCATED


def test_a_refusal_that_names_another_request_fulfils_that_request() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"), allocation_refused(FIRST, 0, "a"), requested("b"))
    assert slots.waiting_requests == ("b",)
    feed(slots, CancelSlotRequest(allocation_id=AllocationId("a")), requested("a"))

    effects = feed(slots, allocation_refused(FIRST, 0, "b", by="a"))

    assert effects == []
    assert slots.waiting_requests == ("b",)
    assert slots.slot_states == {slot_id(FIRST, 0): SlotState.ALLOCATED}


def test_a_request_pending_on_an_occupied_slot_moves_to_another() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), requested("a"))

    effects = feed(slots, slot_heartbeat(FIRST, "z", None))

    assert effects == [gives(FIRST, 1, "a")]


def test_a_report_sent_before_the_allocation_does_not_free_the_slot() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"))

    effects = feed(slots, slot_heartbeat(FIRST, None))

    assert effects == []
    assert slots.slot_states == {slot_id(FIRST, 0): SlotState.PENDING}


def test_a_report_frees_slots_wrongly_recorded_as_allocated() -> None:
    slots = manager()
    feed(slots, registered(FIRST, "x"), requested("a"))

    effects = feed(slots, slot_heartbeat(FIRST, None))

    assert effects == [gives(FIRST, 0, "a")]


def test_a_report_of_an_unregistered_task_manager_is_ignored() -> None:
    slots = manager()

    effects = feed(slots, slot_heartbeat(FIRST, None))

    assert effects == [Ignore(reason="task-manager-1 is not registered")]


def test_the_loss_of_a_task_manager_fails_its_allocations() -> None:
    slots = manager()
    feed(slots, registered(FIRST, "a", "b", None))

    effects = feed(slots, gone(FIRST))

    assert effects == [fails("a", "killed"), fails("b", "killed")]
    assert slots.slot_states == {}


def test_requests_pending_on_a_lost_task_manager_are_served_first() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None, None), *(requested(allocation) for allocation in "abc"))
    feed(slots, gone(FIRST))

    effects = feed(slots, registered(SECOND, None, None))

    assert effects[1:] == [gives(SECOND, 0, "a"), gives(SECOND, 1, "b")]


def test_requests_of_a_disconnected_job_are_removed() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), requested("a"), requested("b"), requested("c", job="job-2"))

    effects = feed(slots, JobDisconnected(job_id=JobId("job-1")))

    assert effects == [gives(FIRST, 0, "c", job="job-2")]


# TaskManagers on demand


def test_task_managers_are_started_for_waiting_requests_up_to_the_maximum() -> None:
    slots = SlotManager(WorkerCounts(configured=1, maximum=3, slots=2))
    feed(slots, ResourceManagerStarted())

    expected = feed(slots, requested("a"), requested("b"))
    more = feed(slots, requested("c"), requested("d"), requested("e"), requested("f"), requested("g"))

    assert expected == []
    assert more == [StartTaskManager(task_manager=SECOND), StartTaskManager(task_manager=THIRD)]


def test_idle_task_managers_beyond_the_configured_number_are_released() -> None:
    slots = SlotManager(WorkerCounts(configured=1, maximum=2, idle_timeout_ms=50))
    feed(slots, ResourceManagerStarted(), registered(FIRST, None), registered(SECOND, None))

    early = feed(slots, HeartbeatDue(), now=49)
    [asked] = feed(slots, HeartbeatDue(), now=50)
    answer = ReleaseAnswer(task_manager_id=FIRST, idle_period=1, can_be_released=True)
    released = feed(slots, answer, now=51)
    no_more = feed(slots, HeartbeatDue(), now=100)

    assert early == no_more == []
    assert asked == Tell(to=FIRST, message=AskForRelease(idle_period=1))
    assert released == [
        Tell(to=FIRST, message=ReleaseTaskManager()),
        ForgetTaskManager(task_manager=FIRST),
    ]


def test_requests_fail_if_task_managers_repeatedly_fail_to_start() -> None:
    slots = SlotManager(WorkerCounts(configured=1))
    feed(slots, ResourceManagerStarted(), requested("a"), gone(FIRST), gone(SECOND))

    effects = feed(slots, gone(THIRD))

    messages = [effect.message for effect in effects if isinstance(effect, Tell)]
    failures = [message.allocation_id for message in messages if isinstance(message, SlotRequestFailed)]
    pauses = [effect.delay_ms for effect in effects if isinstance(effect, StartTaskManager)]
    assert failures == ["a"]
    assert pauses == [4 * START_RETRY_MS]


def test_a_new_instance_of_a_lost_task_manager_is_accepted() -> None:
    slots = manager()
    feed(slots, registered(FIRST, None), gone(FIRST))

    effects = feed(slots, registered(FIRST, None, instance=2))

    assert effects == [AcceptTaskManager(task_manager=FIRST)]
