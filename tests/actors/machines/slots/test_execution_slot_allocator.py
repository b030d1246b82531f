"""Slots are allocated for attempts: a restarted attempt gets its former slot, and attempts share slots if allowed."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.slots.execution_slot_allocator import ExecutionSlotAllocator
from flykka.actors.machines.slots.slot_requests import RequestSlots, ReturnSlot, SlotAllocated, SlotRequest, SlotsLost
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.scheduling.feeding import feed
from tests.actors.machines.slots.slot_pool_events import FIRST, JOB, JOB_MASTER, connected, lost, offered


def wish(vertex: str, subtask: int, attempt: int = 0, *, inputs: tuple[str, ...] = ()) -> SlotRequest:
    return SlotRequest(
        attempt=ExecutionAttemptId(f"{vertex}_{subtask}_{attempt}"),
        vertex_id=JobVertexId(vertex),
        subtask=subtask,
        slot_sharing_group="default",
        inputs=tuple(ExecutionAttemptId(each) for each in inputs),
    )


def wished(*requests: SlotRequest) -> RequestSlots:
    return RequestSlots(requests=requests)


def returned(attempt: str, *, will_return: bool = True) -> ReturnSlot:
    return ReturnSlot(attempt=ExecutionAttemptId(attempt), will_return=will_return)


def allocator(*spare: str, batch: bool = False) -> ExecutionSlotAllocator:
    slots = ExecutionSlotAllocator("a", JOB, JOB_MASTER, batch=batch)
    feed(slots, connected(FIRST), offered(*spare))
    return slots


def places(effects: Sequence[object]) -> dict[str, str]:
    return {
        attempt: effect.slot.allocation_id
        for effect in effects
        if isinstance(effect, SlotAllocated)
        for attempt in effect.attempts
    }


def test_only_subtasks_of_different_vertices_share_a_slot() -> None:
    slots = allocator("x", "y")

    effects = feed(slots, wished(wish("a", 0), wish("a", 1), wish("b", 0), wish("b", 1)))

    assert places(effects) == {"a_0_0": "x", "a_1_0": "y", "b_0_0": "x", "b_1_0": "y"}


def test_a_consumer_shares_its_producers_slot_before_others() -> None:
    slots = allocator("x", "y")
    feed(slots, wished(wish("a", 0), wish("a", 1)))

    effects = feed(slots, wished(wish("b", 0), wish("b", 1, inputs=("a_0_0",))))

    assert places(effects) == {"b_0_0": "y", "b_1_0": "x"}


def test_a_restarted_region_returns_to_its_former_slots() -> None:
    slots = allocator("x", "y")
    feed(slots, wished(wish("a", 0), wish("a", 1)), returned("a_0_0"), returned("a_1_0"))

    second = feed(slots, wished(wish("a", 1, 1)))
    first = feed(slots, wished(wish("a", 0, 1)))

    assert places(second) == {"a_1_1": "y"}
    assert places(first) == {"a_0_1": "x"}


def test_the_slots_of_a_restarting_region_are_not_given_to_another() -> None:
    slots = allocator("x")
    feed(slots, wished(wish("a", 0)), returned("a_0_0"))

    effects = feed(slots, wished(wish("a", 1)))

    assert places(effects) == {}
    assert slots.pool.pending_requests == ("default/2",)


def test_a_new_vertex_shares_a_slot_reserved_for_another_vertex() -> None:
    slots = allocator("x")
    feed(slots, wished(wish("a", 0), wish("b", 0)), returned("a_0_0", will_return=False), returned("b_0_0"))

    effects = feed(slots, wished(wish("a", 0, 1), wish("b", 0, 1)))

    assert places(effects) == {"a_0_1": "x", "b_0_1": "x"}


def test_idle_slots_of_a_batch_job_are_not_reserved() -> None:
    slots = allocator("x", batch=True)
    feed(slots, wished(wish("a", 0)), returned("a_0_0"))

    effects = feed(slots, wished(wish("a", 1)))

    assert places(effects) == {"a_1_0": "x"}


def test_the_loss_of_a_task_manager_loses_all_its_attempts() -> None:
    slots = allocator("x")
    feed(slots, wished(wish("a", 0), wish("b", 0)))

    effects = feed(slots, lost(FIRST))

    attempts = (ExecutionAttemptId("a_0_0"), ExecutionAttemptId("b_0_0"))
    cause = SerializedThrowable(type_name="SlotLostError", message="task-manager-1 is lost: killed")
    assert effects == [SlotsLost(attempts=attempts, cause=cause, task_manager_id=FIRST)]


def test_attempts_that_share_a_slot_request_it_once() -> None:
    slots = allocator()

    feed(slots, wished(wish("a", 0), wish("b", 0), wish("b", 1)))

    assert slots.pool.pending_requests == ("default/1", "default/2")
    assert not [
        each
        for each in feed(slots, wished(wish("c", 0)))
        if isinstance(each, Tell) and each.to is Role.RESOURCE_MANAGER
    ]
