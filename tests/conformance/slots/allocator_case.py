"""The placement of the tasks of a job: at once, or in shared slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flykka.actors.machines.slots.slot_pool import ResourceManagerConnected
from flykka.actors.machines.slots.slot_requests import (
    CoLocationConstraint,
    RequestSlots,
    SlotRequest,
)
from flykka.messages.control.slots import RequestSlot
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, TaskManagerId
from tests.actors.machines.slots.slot_pool_events import lost
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.slots.job_slots import JobSlots
from tests.conformance.slots.words import profile


class SchedulingCase:
    """Tasks that are placed at once or not at all; waiting requests are cancelled."""

    def __init__(self, case: Case) -> None:
        only_known_words("given", case["given"], {"kind", "task_managers"})
        self._job = JobSlots()
        self._constraints: dict[str, CoLocationConstraint] = {}
        self._group = ""
        self._task = ""
        self._results: list[str] = []
        self._all = sum(case["given"]["task_managers"].values())
        for name, slots in case["given"]["task_managers"].items():
            self._job.connect(name, slots)

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, {"do", "want", "task", "tasks", "group", "prefer", "co_location", "then", "tm"})
        match step["do"]:
            case "allocate":
                self._group = step.get("group", self._group)
                tasks = step.get("tasks", [step["task"]] if "task" in step else [])
                self._results = [self._allocate(task, step) for task in tasks]
            case "release":
                for task in step["tasks"]:
                    self._job.release(task)
            case "lose_task_manager":
                self._job.tell(lost(TaskManagerId(step["tm"])))
            case "allocate_queued":
                tasks = [f"q_{number}" for number in range(step["tasks"])]
                self._job.tell(RequestSlots(requests=tuple(_request(task, {}) for task in tasks)))
                waiting = list(tasks)
                while served := [task for task in waiting if task in self._job.placed]:
                    waiting = [task for task in waiting if task not in served]
                    for task in served:
                        self._job.release(task)
                self._results = ["no_resource" for _ in waiting]
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        sharing = self._job.allocator.sharing
        match word:
            case "result":
                return set(self._results) == {wanted}
            case "on":
                return self._job.placed[self._task].task_manager_id == wanted
            case "same_slot_as":
                return self._slot(self._task) == self._slot(wanted)
            case "other_slot_than":
                return self._slot(self._task) != self._slot(wanted)
            case "free_slots" | "available":
                return len(self._job.free_slots()) == wanted
            case "free_slots_at_the_end":
                return len(self._job.free_slots()) == (self._all if wanted == "all" else wanted)
            case "all_got_a_slot":
                return (not self._results) is wanted
            case "slots_of_group":
                return {group: len(sharing.slots_of(group)) for group in wanted} == wanted
            case "group_slots_open_for":
                shared = sharing.slots_of(self._group)
                requests = {each: _request(f"{each}_0", {"group": self._group}) for each in wanted}
                return {
                    each: sum(sharing.can_join(requests[each], slot) for slot in shared) for each in wanted
                } == wanted
            case _:
                raise UnknownWordError(word)

    def _slot(self, task: str) -> AllocationId:
        return self._job.placed[task].allocation_id

    def _allocate(self, task: str, step: Mapping[str, Any]) -> str:
        self._task = task
        self._job.placed.pop(task, None)
        name = step.get("co_location")
        constraint = None
        if name is not None:
            number = len(self._constraints)
            constraint = self._constraints.setdefault(name, CoLocationConstraint(group="together", index=number))
        self._job.tell(RequestSlots(requests=(_request(task, step, constraint),)))
        if task in self._job.placed:
            return "ok"
        self._job.release(task)
        return "no_resource"


def _request(task: str, step: Mapping[str, Any], constraint: CoLocationConstraint | None = None) -> SlotRequest:
    vertex, _, subtask = task.rpartition("_")
    return SlotRequest(
        attempt=ExecutionAttemptId(task),
        vertex_id=JobVertexId(vertex),
        subtask=int(subtask),
        slot_sharing_group=step.get("group", f"alone:{vertex}"),
        co_location=constraint,
        preferred=tuple(TaskManagerId(each) for each in step.get("prefer", ())),
    )


class SharedSlotCase:
    """Requests that wait for one slot, which may be too small when it arrives."""

    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"kind", "requests", "slot"})
        job = JobSlots()
        self._together: list[str] = []
        job.tell(ResourceManagerConnected())
        job.tell(RequestSlots(requests=tuple(self._requests(given["requests"]))))
        [first] = [effect.allocation_id for effect in job.messages_of(RequestSlot)]
        job.connect("tm")
        job.offer("tm", first, 0, profile(given["slot"]))
        self._placed = {int(task) for task in job.placed}
        self._all = set(range(sum(len(_unit(each)) for each in given["requests"])))
        self._may_retry = not job.failed

    def do(self, step: Mapping[str, Any]) -> None:
        """Such a case has no steps."""
        raise UnknownWordError(str(step))

    def holds(self, word: str, wanted: Any) -> bool:
        match word:
            case "fulfilled":
                return self._placed == set(wanted)
            case "failed":
                return self._all - self._placed == set(wanted)
            case "co_located_unit_kept":
                return (bool(self._together) and {int(each) for each in self._together} <= self._placed) is wanted
            case "failed_may_retry":
                # The case does not specify the result if nothing has failed.
                return (self._may_retry if self._placed != self._all else None) is wanted
            case _:
                raise UnknownWordError(word)

    def _requests(self, words: Iterable[Any]) -> Iterable[SlotRequest]:
        number = 0
        for word in words:
            for size in _unit(word):
                if isinstance(word, dict):
                    self._together.append(str(number))
                yield SlotRequest(
                    attempt=ExecutionAttemptId(str(number)),
                    vertex_id=JobVertexId(f"v{number}"),
                    subtask=0,
                    slot_sharing_group="g",
                    co_location=CoLocationConstraint(group="c", index=0) if isinstance(word, dict) else None,
                    resources=profile(size),
                )
                number += 1


def _unit(word: Any) -> list[Any]:
    if isinstance(word, dict):
        only_known_words("request", word, {"co_located"})
        return list(word["co_located"])
    return [word]
