"""The slot pool of a job under test, inside its ExecutionSlotAllocator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.slots.slot_pool import (
    IDLE_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    PoolClosed,
    ReleaseEmptyTaskManager,
    ResourceManagerConnected,
)
from flykka.actors.machines.slots.slot_requests import (
    RequestSlots,
    SlotRequest,
)
from flykka.messages.control.job_control import IdleSlotsDue
from flykka.messages.control.slots import AcceptSlots, CancelSlotRequest, FreeSlot, RequestSlot
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, TaskManagerId
from tests.actors.machines.slots.slot_pool_events import lost, slot_request_failed, timed_out
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.slots.job_slots import JobSlots
from tests.conformance.slots.words import profile


class PoolCase:
    def __init__(self, case: Case) -> None:
        given, steps = case["given"], case["steps"]
        only_known_words("given", given, {"kind", "resource_manager", "idle_timeout_ms", "release_at_task_manager"})
        timeouts = {step["timeout_ms"] for step in steps if "timeout_ms" in step} or {REQUEST_TIMEOUT_MS}
        assert len(timeouts) == 1, "all requests of a job may wait for as long"
        self._timeout_ms = timeouts.pop()
        self._job = JobSlots(
            batch=any(step["do"] == "request_batch" for step in steps),
            request_timeout_ms=self._timeout_ms,
            idle_timeout_ms=given.get("idle_timeout_ms", IDLE_TIMEOUT_MS),
        )
        if given.get("resource_manager") != "not connected":
            self._job.tell(ResourceManagerConnected())
        self._asked_for: dict[str, AllocationId] = {}
        self._cancelled: set[str] = set()
        self._released: set[str] = set()
        self._batch = {step["request"] for step in steps if step["do"] == "request_batch"}

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _POOL_STEP)
        job = self._job
        job.step = []
        match step["do"]:
            case "register_task_manager":
                job.connect(step["tm"], step.get("slots", 0))
            case "request" | "request_batch":
                self._request(step)
            case "offer":
                job.offer(step["tm"], self._allocation(step["allocation"]), step["index"], profile(step.get("profile")))
            case "take":
                for number in range(step["n"]):
                    self._request({"request": f"{step['tm']}-taken-{number}", "prefer": step["tm"]})
            case "release":
                self._released.add(step["request"])
                job.release(step["request"])
            case "cancel":
                self._cancelled.add(step["request"])
                job.release(step["request"])
            case "lose_task_manager":
                job.tell(lost(TaskManagerId(step["tm"])))
            case "fail_allocation":
                allocation = self._allocation(step["allocation"])
                unfulfillable = step.get("cause") == "UNFULFILLABLE"
                job.tell(slot_request_failed(allocation, "failed", is_unfulfillable=unfulfillable))
            case "resource_manager_fails":
                allocation = self._asked_for[step["request"]]
                job.tell(slot_request_failed(allocation, "the ResourceManager failed"))
            case "advance":
                job.now += step["ms"]
                for due in [each for each, at in job.timers.items() if at <= job.now]:
                    job.tell(timed_out(due))
            case "check_idle":
                job.tell(IdleSlotsDue())
            case "batch_timeout":
                job.tell(IdleSlotsDue())
                job.now += self._timeout_ms
                job.tell(IdleSlotsDue())
            case "close":
                job.tell(PoolClosed())
            case "report":
                pass
            case unknown:
                raise UnknownWordError(unknown)
        self._reported = step.get("tm")

    def holds(self, word: str, wanted: Any) -> bool:
        job, pool = self._job, self._job.allocator.pool
        match word:
            case "done":
                return {each: each in job.placed for each in wanted} == wanted
            case "alive":
                return {each: each in job.placed and each not in job.lost | self._released for each in wanted} == wanted
            case "failed":
                # A batch request takes a free slot at once, so it may have had a slot and lost it.
                batch = {each for each in job.lost if each in self._batch}
                return {*job.failed, *self._cancelled, *batch} == set(wanted)
            case "failure":
                return wanted == "TIMEOUT" and all("no slot became free" in reason for reason in job.failed.values())
            case "location":
                return {each: job.placed[each].task_manager_id for each in wanted} == wanted
            case "allocation":
                found = {each: job.placed[each].allocation_id for each in wanted if each in job.placed}
                return found == {each: self._allocation(name) for each, name in wanted.items()}
            case "same_slot":
                return all(len({job.placed[each].allocation_id for each in one}) == 1 for one in wanted)
            case "accepted":
                messages = [effect.message for effect in job.step if isinstance(effect, Tell)]
                return any(answer.accepted for answer in messages if isinstance(answer, AcceptSlots)) is wanted
            case "asked_resource_manager":
                asked = {effect.allocation_id for effect in job.messages_of(RequestSlot)}
                return asked == set(map(self._allocation, wanted))
            case "asked_resource_manager_count":
                return len(job.messages_of(RequestSlot)) == wanted
            case "cancelled_at_resource_manager":
                withdrawn = {effect.allocation_id for effect in job.messages_of(CancelSlotRequest)}
                return withdrawn == set(map(self._allocation, wanted))
            case "freed_at_task_manager":
                freed = {effect.allocation_id for effect in job.messages_of(FreeSlot)}
                return freed == set(map(self._allocation, wanted))
            case "freed_at_task_manager_last":
                return bool(job.messages_of(FreeSlot)[-1].allocation_id == self._allocation(wanted))
            case "empty_task_manager":
                empty = [effect.task_manager for effect in job.step if isinstance(effect, ReleaseEmptyTaskManager)]
                return empty == ([] if wanted is None else [wanted])
            case "available":
                return len(job.free_slots()) == wanted
            case "pending" | "waiting_for_resource_manager":
                return len(pool.pending_requests) == wanted
            case "utilization":
                return {each: pool.utilization(TaskManagerId(each)) for each in wanted} == wanted
            case "slots":
                report = pool.report(TaskManagerId(str(self._reported)))
                found = {slot.rpartition("/")[2]: allocation for slot, allocation in report.items()}
                return found == {index: self._allocation(name) for index, name in wanted.items()}
            case _:
                raise UnknownWordError(word)

    def _request(self, step: Mapping[str, Any]) -> None:
        name = step["request"]
        before = len(self._job.messages_of(RequestSlot))
        request = SlotRequest(
            attempt=ExecutionAttemptId(name),
            vertex_id=JobVertexId(step.get("vertex", name)),
            # Each request of a vertex is for another subtask.
            subtask=len(self._asked_for),
            slot_sharing_group=step.get("group", f"alone:{name}"),
            resources=profile(step.get("profile")),
            preferred=(TaskManagerId(step["prefer"]),) if "prefer" in step else (),
        )
        self._job.tell(RequestSlots(requests=(request,)))
        asked = self._job.messages_of(RequestSlot)[before:]
        self._asked_for[name] = asked[0].allocation_id if asked else AllocationId(f"nothing asked for {name}")

    def _allocation(self, name: str) -> AllocationId:
        if name in _ASKS:
            return AllocationId(self._job.messages_of(RequestSlot)[_ASKS[name]].allocation_id)
        if name.startswith("a("):
            return self._asked_for[name.removeprefix("a(").removesuffix(")")]
        return AllocationId(name)


_ASKS = {"first ask": 0, "second ask": 1}
_POOL_STEP = {
    *("do", "want", "tm", "slots", "request", "vertex", "group", "profile", "timeout_ms", "allocation", "index"),
    *("cause", "ms", "n"),
}
