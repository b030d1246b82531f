"""A job's slots: its own are used before new ones are asked for, offers are idempotent, all go back at the end."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.graph.slot_sharing import SlotRequestId
from flykka.actors.scheduling.ignore import Ignore
from flykka.actors.scheduling.slot_pool import IDLE_TIMEOUT_MS, REQUEST_TIMEOUT_MS, SlotPool
from flykka.actors.scheduling.slot_pool_events import (
    AllocationFailed,
    AnswerOffers,
    AskForSlot,
    CancelRequestTimer,
    FreeAtTaskManager,
    IdleCheckDue,
    JobEnded,
    RequestTimedOut,
    ResourceManagerConnected,
    ResourceManagerDisconnected,
    SlotAssigned,
    SlotLost,
    SlotPoolEffect,
    SlotRequestRejected,
    SlotReturned,
    SlotsOffered,
    SlotWanted,
    StartRequestTimer,
    TaskManagerConnected,
    TaskManagerDisconnected,
    WithdrawRequest,
)
from flykka.messages.ids import AllocationId, TaskManagerId, slot_id
from flykka.messages.slots import SlotOffer
from tests.actors.scheduling.feeding import feed

FIRST = TaskManagerId("task-manager-1")
SECOND = TaskManagerId("task-manager-2")


def wanted(request: str, allocation: str) -> SlotWanted:
    return SlotWanted(request_id=SlotRequestId(request), allocation_id=AllocationId(allocation))


def returned(request: str) -> SlotReturned:
    return SlotReturned(request_id=SlotRequestId(request))


def offered(*allocations: str, task_manager: TaskManagerId = FIRST, first_index: int = 0) -> SlotsOffered:
    """An offer of the slots `first_index`, `first_index` + 1, ..."""
    return SlotsOffered(
        task_manager=task_manager,
        offers=tuple(
            SlotOffer(allocation_id=AllocationId(allocation), slot_id=slot_id(task_manager, index))
            for index, allocation in enumerate(allocations, first_index)
        ),
    )


def assigned(request: str, allocation: str, index: int = 0, task_manager: TaskManagerId = FIRST) -> SlotAssigned:
    return SlotAssigned(
        request_id=SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        slot_id=slot_id(task_manager, index),
        task_manager=task_manager,
    )


def answered(*allocations: str, task_manager: TaskManagerId = FIRST) -> AnswerOffers:
    return AnswerOffers(task_manager=task_manager, accepted=tuple(AllocationId(each) for each in allocations))


def asks(allocation: str) -> AskForSlot:
    return AskForSlot(allocation_id=AllocationId(allocation))


def withdraws(allocation: str) -> WithdrawRequest:
    return WithdrawRequest(allocation_id=AllocationId(allocation))


def frees(allocation: str, task_manager: TaskManagerId = FIRST) -> FreeAtTaskManager:
    return FreeAtTaskManager(task_manager=task_manager, allocation_id=AllocationId(allocation))


def starts_timer(request: str) -> StartRequestTimer:
    return StartRequestTimer(request_id=SlotRequestId(request), delay_ms=REQUEST_TIMEOUT_MS)


def cancels_timer(request: str) -> CancelRequestTimer:
    return CancelRequestTimer(request_id=SlotRequestId(request))


def loses(request: str, allocation: str, reason: str, task_manager: TaskManagerId = FIRST) -> SlotLost:
    return SlotLost(
        request_id=SlotRequestId(request),
        allocation_id=AllocationId(allocation),
        task_manager=task_manager,
        reason=reason,
    )


def pool() -> SlotPool:
    """A pool that knows the ResourceManager and one TaskManager."""
    slots = SlotPool()
    feed(slots, ResourceManagerConnected(), TaskManagerConnected(task_manager=FIRST))
    return slots


def test_a_request_asks_the_resource_manager() -> None:
    slots = pool()

    effects = feed(slots, wanted("r1", "a1"))

    assert effects == [starts_timer("r1"), asks("a1")]


def test_the_offered_slot_serves_the_request_it_was_asked_for() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), wanted("r2", "a2"))

    effects = feed(slots, offered("a2"))

    assert effects == [answered("a2"), cancels_timer("r2"), assigned("r2", "a2")]


def test_the_same_offer_is_accepted_again_and_changes_nothing() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"))

    effects = feed(slots, offered("a1"))

    assert effects == [answered("a1")]


def test_one_allocation_is_not_accepted_in_two_slots() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"))

    effects = feed(slots, offered("a1", first_index=1))

    assert effects == [answered()]


def test_slots_of_a_stranger_are_not_taken() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"))

    effects = feed(slots, offered("a1", task_manager=SECOND))

    assert effects == [Ignore(reason="task-manager-2 is not connected")]


def test_a_spare_slot_is_kept_and_serves_the_next_request_at_once() -> None:
    slots = pool()
    feed(slots, offered("spare"))

    effects = feed(slots, wanted("r1", "a1"))

    assert effects == [assigned("r1", "spare")]


def test_a_returned_slot_is_used_again_without_asking() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"), returned("r1"))

    effects = feed(slots, wanted("r2", "a2"))

    assert effects == [assigned("r2", "a1")]


def test_a_returned_slot_goes_to_the_longest_waiting_request_whose_own_is_withdrawn() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"), wanted("r2", "a2"), wanted("r3", "a3"))

    effects = feed(slots, returned("r1"))

    assert effects == [cancels_timer("r2"), withdraws("a2"), assigned("r2", "a1")]


def test_a_request_that_is_returned_before_it_is_served_is_withdrawn() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"))

    effects = feed(slots, returned("r1"))

    assert effects == [cancels_timer("r1"), withdraws("a1")]


def test_the_slot_of_a_withdrawn_request_serves_another_one() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), wanted("r2", "a2"), returned("r1"))

    effects = feed(slots, offered("a1"))

    assert effects == [answered("a1"), cancels_timer("r2"), withdraws("a2"), assigned("r2", "a1")]


def test_what_is_returned_twice_is_returned_once() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"), returned("r1"))

    effects = feed(slots, returned("r1"))

    assert effects == [Ignore(reason="r1 has no slot")]
    assert slots.free_slots == ("a1",)


def test_a_request_is_made_once() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"))

    effects = feed(slots, wanted("r1", "other"))

    assert effects == [Ignore(reason="r1 was made before")]


def test_requests_wait_for_a_resource_manager() -> None:
    slots = SlotPool()

    before = feed(slots, wanted("r1", "a1"), wanted("r2", "a2"))
    after = feed(slots, ResourceManagerConnected())

    assert before == [starts_timer("r1"), starts_timer("r2")]
    assert after == [asks("a1"), asks("a2")]


def test_a_new_resource_manager_is_asked_for_what_is_still_missing() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), wanted("r2", "a2"), offered("a1"), ResourceManagerDisconnected())

    effects = feed(slots, ResourceManagerConnected())

    assert effects == [asks("a2")]


def test_a_request_that_waited_too_long_is_rejected_and_withdrawn() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"))

    effects = feed(slots, RequestTimedOut(request_id=SlotRequestId("r1")))

    rejection = SlotRequestRejected(
        request_id=SlotRequestId("r1"), reason=f"no slot became free within {REQUEST_TIMEOUT_MS} ms"
    )
    assert effects == [withdraws("a1"), rejection]


def test_a_slot_that_arrives_after_its_request_timed_out_stays_available() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), RequestTimedOut(request_id=SlotRequestId("r1")))

    effects = feed(slots, offered("a1"))

    assert effects == [answered("a1")]
    assert slots.free_slots == ("a1",)


def test_a_timeout_behind_the_slot_means_nothing() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"))

    effects = feed(slots, RequestTimedOut(request_id=SlotRequestId("r1")))

    assert effects == [Ignore(reason="r1 does not wait")]


def test_an_allocation_that_cannot_be_had_rejects_its_request() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"))

    effects = feed(slots, AllocationFailed(allocation_id=AllocationId("a1"), reason="none left"))

    assert effects == [
        cancels_timer("r1"),
        SlotRequestRejected(request_id=SlotRequestId("r1"), reason="none left"),
    ]


def test_an_allocation_that_is_lost_later_takes_its_slot_along() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"))

    effects = feed(slots, AllocationFailed(allocation_id=AllocationId("a1"), reason="lost"))

    assert effects == [loses("r1", "a1", "lost"), frees("a1")]
    assert slots.slots_of(FIRST) == ()


def test_the_failure_of_an_unknown_allocation_is_ignored() -> None:
    slots = pool()

    effects = feed(slots, AllocationFailed(allocation_id=AllocationId("a1"), reason="lost"))

    assert effects == [Ignore(reason="a1 is neither held nor asked for")]


def test_a_lost_task_manager_takes_its_slots_along_and_no_others() -> None:
    slots = pool()
    feed(slots, TaskManagerConnected(task_manager=SECOND))
    feed(slots, wanted("r1", "a1"), wanted("r2", "a2"), wanted("r3", "a3"))
    feed(slots, offered("a1", "spare"), offered("a2", task_manager=SECOND))

    effects = feed(slots, TaskManagerDisconnected(task_manager=FIRST, reason="killed"))

    assert effects == [loses("r1", "a1", "killed"), loses("r2", "spare", "killed")]
    assert slots.slots_of(SECOND) == ("a2",)


def test_the_loss_of_a_task_manager_is_answered_once() -> None:
    slots = pool()
    loss = TaskManagerDisconnected(task_manager=FIRST, reason="killed")
    feed(slots, wanted("r1", "a1"), offered("a1"), loss)

    effects = feed(slots, loss)

    assert effects == [Ignore(reason="task-manager-1 is not connected")]


def test_a_job_that_restarts_after_a_loss_asks_only_for_what_it_lost() -> None:
    slots = pool()
    feed(slots, TaskManagerConnected(task_manager=SECOND), wanted("r1", "a1"), wanted("r2", "a2"))
    feed(slots, offered("a1"), offered("a2", task_manager=SECOND))
    feed(slots, TaskManagerDisconnected(task_manager=FIRST, reason="killed"), returned("r1"), returned("r2"))

    effects = feed(slots, wanted("r1/1", "a3"), wanted("r2/1", "a4"))

    assert effects == [
        assigned("r1/1", "a2", task_manager=SECOND),
        starts_timer("r2/1"),
        asks("a4"),
    ]


def test_a_slot_that_nobody_needs_for_long_goes_back() -> None:
    slots = pool()
    feed(slots, offered("a1"), now=0)

    before = feed(slots, IdleCheckDue(), now=IDLE_TIMEOUT_MS - 1)
    after = feed(slots, IdleCheckDue(), now=IDLE_TIMEOUT_MS)

    assert before == []
    assert after == [frees("a1")]
    assert slots.free_slots == ()


def test_a_slot_in_use_never_counts_as_idle() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1"))

    effects = feed(slots, IdleCheckDue(), now=10 * IDLE_TIMEOUT_MS)

    assert effects == []


def test_at_the_end_of_the_job_everything_goes_back() -> None:
    slots = pool()
    feed(slots, wanted("r1", "a1"), offered("a1", "spare"), wanted("r2", "a2"), wanted("r3", "a3"))

    effects = feed(slots, JobEnded())

    assert effects == [cancels_timer("r3"), withdraws("a3"), frees("a1"), frees("spare")]


def test_after_the_end_no_slot_is_taken() -> None:
    slots = pool()
    feed(slots, JobEnded())

    effects = feed(slots, offered("a1"), wanted("r1", "a1"))

    assert effects == [answered(), Ignore(reason="the job has ended")]


class SlotPoolLives(RuleBasedStateMachine):
    """Requests come and go while TaskManagers offer slots and are lost."""

    requests = st.sampled_from("rstu")
    task_managers = st.sampled_from([FIRST, SECOND])

    @initialize()
    def begin(self) -> None:
        self.slots = SlotPool()
        self.asked: set[AllocationId] = set()
        self.served: dict[str, AllocationId] = {}
        self.made = 0
        self.feed(ResourceManagerConnected())

    def feed(self, event: Any) -> None:
        for effect in self.slots.handle(event, 0):
            self.perform(effect)

    def perform(self, effect: SlotPoolEffect) -> None:
        match effect:
            case AskForSlot(allocation_id=allocation_id):
                self.asked.add(allocation_id)
            case WithdrawRequest(allocation_id=allocation_id):
                self.asked.remove(allocation_id)
            case SlotAssigned(request_id=request_id, allocation_id=allocation_id):
                assert allocation_id not in self.served.values(), "one slot for two requests"
                self.asked.discard(allocation_id)
                self.served[request_id] = allocation_id
            case SlotLost(request_id=request_id):
                del self.served[request_id]

    @rule(request=requests)
    def want(self, request: str) -> None:
        self.made += 1
        self.feed(wanted(request, f"a{self.made}"))

    @rule(request=requests)
    def give_back(self, request: str) -> None:
        self.served.pop(request, None)
        self.feed(returned(request))

    @rule(task_manager=task_managers)
    def connect(self, task_manager: TaskManagerId) -> None:
        self.feed(TaskManagerConnected(task_manager=task_manager))

    @rule(task_manager=task_managers)
    def lose(self, task_manager: TaskManagerId) -> None:
        self.feed(TaskManagerDisconnected(task_manager=task_manager, reason="killed"))

    @rule(task_manager=task_managers, number=st.integers(1, 6), index=st.integers(0, 1))
    def offer(self, task_manager: TaskManagerId, number: int, index: int) -> None:
        self.feed(offered(f"a{number}", task_manager=task_manager, first_index=index))

    @invariant()
    def every_request_waits_or_is_served(self) -> None:
        self.slots.check()
        assert len(self.asked) == len(self.slots.pending_requests)
        held = {*self.slots.slots_of(FIRST), *self.slots.slots_of(SECOND)}
        assert held == {*self.served.values(), *self.slots.free_slots}


TestSlotPoolLives = SlotPoolLives.TestCase
