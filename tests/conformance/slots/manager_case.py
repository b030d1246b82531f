"""The ResourceManager's SlotManager under test, with TaskManagers that the case controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flykka.actors.machines.effects import Ignore, JobMasterOf, Tell
from flykka.actors.machines.slots.slot_manager import (
    ALLOCATE_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    AssignSlot,
    SlotManager,
    SlotManagerEffect,
    SlotManagerEvent,
    TaskManagerGone,
)
from flykka.actors.machines.slots.task_manager_slots import SlotState
from flykka.actors.machines.slots.task_manager_tracker import TASK_MANAGER_TIMEOUT_MS, StartTaskManager, WorkerCounts
from flykka.messages.control.registration import (
    AskForRelease,
    Heartbeat,
    HeartbeatDue,
    ReleaseAnswer,
    ReleaseTaskManager,
    SlotReport,
    SlotStatus,
    StartUpPeriodElapsed,
)
from flykka.messages.control.slots import (
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    SlotAvailable,
    SlotRequestFailed,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId
from tests.actors.machines.slots.slot_manager_events import registers, requested
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.slots.words import profile


class ManagerCase:
    """A SlotManager under test; slots are named `tm.index`."""

    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, _GIVEN)
        if given.get("strategy", "least utilized") != "least utilized":
            raise UnknownWordError(f"strategy {given['strategy']!r}")
        answers = given.get("task_manager_answers", "at once")
        answers_in_steps = any(step["do"] == "task_manager_answers" for step in case["steps"])
        self._unanswered = {"at once": 0, "never": 1_000_000, "never to the first": 1}[answers]
        if answers_in_steps:
            self._unanswered = 1_000_000
        self._workers_fail = given.get("new_workers") == "fail"
        workers = WorkerCounts(
            configured=0,
            maximum=1_000 if given.get("can_start_workers", True) else 0,
            slots=given.get("slots_per_new_worker", 1),
            idle_timeout_ms=given.get("task_manager_timeout_ms", TASK_MANAGER_TIMEOUT_MS),
        )
        self._slots = SlotManager(workers, request_timeout_ms=given.get("request_timeout_ms", REQUEST_TIMEOUT_MS))
        self._now = 0
        self._effects: list[SlotManagerEffect] = []
        self._step: list[SlotManagerEffect] = []
        self._asked: list[tuple[TaskManagerId, int]] = []
        self._holds_back = False
        self._names: dict[str, SlotId] = {}
        self._jobs: dict[str, str] = {}
        self._refused: SlotId | None = None
        self._error: SlotRequestFailed | None = None
        self._errors: list[SlotRequestFailed] = []
        if given.get("fail_unfulfillable"):
            self._tell(StartUpPeriodElapsed())
        if "free_slots" in given:
            self._choose(given)

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _STEP)
        self._step = []
        match step["do"]:
            case "register_task_manager":
                report = self._report(step["tm"], step["slots"], profile(step.get("profile")))
                self._tell(registers(TaskManagerId(step["tm"]), report))
            case "request":
                self._request(step["allocation"], step["job"], profile(step.get("profile")))
            case "cancel_request":
                self._tell(CancelSlotRequest(allocation_id=AllocationId(step["allocation"])))
            case "free":
                self._tell(SlotAvailable(slot_id=self._slot(step), allocation_id=AllocationId(step["allocation"])))
            case "advance":
                self._now += step["ms"]
                self._tell(HeartbeatDue())
            case "task_manager_answers":
                self._answer(step["allocation"], step["answer"])
            case "report":
                report = self._report(step["tm"], step["slots"], ResourceSpec())
                self._tell(Heartbeat(task_manager_id=TaskManagerId(step["tm"]), slot_report=report))
            case "unregister_task_manager":
                reason = step.get("cause", "gone")
                self._tell(TaskManagerGone(task_manager=TaskManagerId(step["tm"]), reason=reason))
            case "fail_unfulfillable":
                if step["on"] is not True:
                    raise UnknownWordError(str(step["on"]))
                self._tell(StartUpPeriodElapsed())
            case "timeout_check":
                self._check_timeouts(step)
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        sent = [effect for effect in self._effects if isinstance(effect, AssignSlot)]
        states = self._slots.slot_states
        match word:
            case "accepted":
                is_known = not any(isinstance(effect, Ignore) for effect in self._step)
                return (is_known and self._error is None) is wanted
            case "error" | "request_error":
                error = self._error
                return error is not None and wanted == (
                    "UNFULFILLABLE" if error.is_unfulfillable else "RESOURCE_MANAGER"
                )
            case "sent_to_task_manager":
                return {(e.slot_id, e.job_id, e.allocation_id) for e in sent} == {tuple(each) for each in wanted}
            case "sent_count":
                return len(sent) == wanted
            case "last_sent":
                return [sent[-1].slot_id, sent[-1].allocation_id] == wanted
            case "sent_to_slot":
                return self._is_named(wanted, sent[-1].slot_id)
            case "slot_states":
                return {each: states[SlotId(each)].value for each in wanted} == wanted
            case "allocation_of":
                return {each: self._slots.allocations[SlotId(each)] for each in wanted} == wanted
            case "allocated_slots_of":
                return {each: len(self._allocated(each)) for each in wanted} == wanted
            case "failed_slot_if_different":
                refused = self._refused
                assert refused is not None
                return refused == sent[-1].slot_id or states[refused].value == wanted
            case "requests":
                return set(self._slots.requests) == set(wanted)
            case "pending_requests":
                return len(self._slots.requests) == wanted
            case "assigned":
                held = {holder for slot, holder in self._slots.allocations.items() if holder is not None}
                return {each: each in held for each in wanted} == wanted
            case "workers_requested":
                return sum(isinstance(effect, StartTaskManager) for effect in self._effects) == wanted
            case "registered_slots":
                return len(states) == wanted
            case "expected_slots":
                return self._slots.task_manager_tracker.expected_slots == wanted
            case "expected_slots_taken":
                # Requests are not bound to a TaskManager, so as many TaskManagers are started as are needed.
                waiting = len(self._slots.waiting_requests)
                return min(self._slots.task_manager_tracker.expected_slots, waiting) == wanted
            case "idle":
                return {each: self._slots.is_idle(TaskManagerId(each)) for each in wanted} == wanted
            case "release_requested":
                tells = [effect for effect in self._effects if isinstance(effect, Tell)]
                released = {each.to for each in tells if isinstance(each.message, ReleaseTaskManager)}
                return released == set(wanted)
            case "task_managers_used":
                return len({effect.task_manager for effect in sent}) == wanted
            case "chosen":
                return sent[-1].task_manager == wanted
            case _:
                return self._has_failed(word, wanted)

    def _has_failed(self, word: str, wanted: Any) -> bool:
        failures = _failures(self._effects)
        match word:
            case "allocation_failures" if isinstance(wanted, int):
                return len(failures) - len(self._errors) == wanted
            case "allocation_failures":
                return _failed_allocations(self._effects) == {tuple(each) for each in wanted}
            case "new_allocation_failures":
                return _failed_allocations(self._step) == {tuple(each) for each in wanted}
            case "allocation_failure_cause_contains":
                return bool(failures) and all(wanted in failed.reason for failed in failures)
            case "failure":
                return bool(failures) and all(each.is_unfulfillable == (wanted == "UNFULFILLABLE") for each in failures)
            case _:
                raise UnknownWordError(word)

    # The environment

    def _tell(self, event: SlotManagerEvent) -> None:
        effects = self._slots.handle(event, self._now)
        self._slots.check()
        self._effects += effects
        self._step += effects
        for effect in effects:
            self._surround(effect)

    def _surround(self, effect: SlotManagerEffect) -> None:
        match effect:
            case AssignSlot() if self._unanswered > 0:
                self._unanswered -= 1
            case AssignSlot(slot_id=slot, job_id=job, allocation_id=allocation):
                self._tell(AllocateSlotConfirmed(slot_id=slot, job_id=job, allocation_id=allocation))
            case StartTaskManager(task_manager=task_manager) if self._workers_fail:
                self._tell(TaskManagerGone(task_manager=task_manager, reason="it cannot start"))
            case Tell(to=str() as task_manager, message=AskForRelease(idle_period=period)):
                if self._holds_back:
                    self._asked.append((task_manager, period))
                else:
                    self._say_releasable(task_manager, period, can=True)

    def _request(self, allocation: str, job: str, resources: ResourceSpec) -> None:
        self._jobs[allocation] = job
        name = AllocationId(allocation)
        self._tell(requested(allocation, job, resources))
        # A request may be answered by an immediate failure.
        self._error = next((failed for failed in _failures(self._step) if failed.allocation_id == name), None)
        if self._error is not None:
            self._errors.append(self._error)

    def _say_releasable(self, task_manager: TaskManagerId, idle_period: int, *, can: bool) -> None:
        self._tell(ReleaseAnswer(task_manager_id=task_manager, idle_period=idle_period, can_be_released=can))

    def _check_timeouts(self, step: Mapping[str, Any]) -> None:
        self._holds_back = True
        self._tell(HeartbeatDue())
        self._holds_back = False
        match step.get("before_answer"):
            case None:
                pass
            case "a slot is allocated and freed again":
                self._request("meanwhile", "j", ResourceSpec())
                [slot] = self._allocated("meanwhile")
                self._tell(SlotAvailable(slot_id=slot, allocation_id=AllocationId("meanwhile")))
            case unknown:
                raise UnknownWordError(unknown)
        asked, self._asked = self._asked, []
        for task_manager, idle_period in asked:
            self._say_releasable(task_manager, idle_period, can=step["task_manager_can_be_released"])

    def _answer(self, allocation: str, answer: str | Sequence[str]) -> None:
        given = [effect for effect in self._effects if isinstance(effect, AssignSlot)]
        slot = next(effect.slot_id for effect in reversed(given) if effect.allocation_id == allocation)
        name, job = AllocationId(allocation), JobId(self._jobs[allocation])
        match answer:
            case "ok":
                self._tell(AllocateSlotConfirmed(slot_id=slot, job_id=job, allocation_id=name))
            case "refused":
                self._refused = slot
                self._tell(AllocateSlotRefused(slot_id=slot, allocation_id=name, occupied_by=None))
            case "timeout" | "failed":
                # No call fails in flykka, so a failed call in the case becomes a missing reply.
                self._now += ALLOCATE_TIMEOUT_MS
                self._tell(HeartbeatDue())
            case ["occupied by", holder, _]:
                occupied = AllocationId(holder)
                self._tell(AllocateSlotRefused(slot_id=slot, allocation_id=name, occupied_by=occupied))
            case unknown:
                raise UnknownWordError(str(unknown))

    def _report(self, tm: str, slots: Any, size: ResourceSpec) -> SlotReport:
        if isinstance(slots, dict):
            by_slot = {self._named(tm, name): word for name, word in slots.items()}
        else:
            by_slot = {SlotId(f"{tm}.{index}"): word for index, word in enumerate(slots)}
        return SlotReport(slots=tuple(_status(slot, word, size) for slot, word in by_slot.items()))

    def _slot(self, step: Mapping[str, Any]) -> SlotId:
        if step["slot"] == "the allocated one":
            [slot] = self._allocated(step["allocation"])
            return slot
        return SlotId(step["slot"])

    def _named(self, tm: str, name: str) -> SlotId:
        if name in self._names:
            return self._names[name]
        if name == "the other one":
            [other] = {slot for slot in self._slots.slot_states if slot.startswith(f"{tm}.")} - {*self._names.values()}
            return other
        return SlotId(name)

    def _is_named(self, name: str, slot: SlotId) -> bool:
        """Return whether the name refers to this slot. A name refers to the slot for which it was first used; `the
        other one` is the slot without a name.
        """
        if name == "the other one":
            return slot not in self._names.values()
        return self._names.setdefault(name, slot) == slot

    def _allocated(self, allocation: str) -> list[SlotId]:
        states = self._slots.slot_states
        held = self._slots.allocations
        return [slot for slot in held if held[slot] == allocation and states[slot] is SlotState.ALLOCATED]

    def _choose(self, given: Mapping[str, Any]) -> None:
        if given["free_slots_columns"] != ["name", "profile", "registered slots lookup"]:
            raise UnknownWordError(str(given["free_slots_columns"]))
        for name, size, registered in given["free_slots"]:
            words: list[Any] = ["free", *(["allocated", "j", f"{name}-{index}"] for index in range(1, registered))]
            report = self._report(name, words, profile(size))
            self._tell(registers(TaskManagerId(name), report))
        self._request("wanted", "j", profile(given["request_profile"]))


def _failures(effects: Sequence[SlotManagerEffect]) -> list[SlotRequestFailed]:
    messages = [effect.message for effect in effects if isinstance(effect, Tell)]
    return [message for message in messages if isinstance(message, SlotRequestFailed)]


def _failed_allocations(effects: Sequence[SlotManagerEffect]) -> set[tuple[JobId, AllocationId]]:
    messages = [(effect.to, effect.message) for effect in effects if isinstance(effect, Tell)]
    return {
        (to.job_id, message.allocation_id)
        for to, message in messages
        if isinstance(to, JobMasterOf) and isinstance(message, SlotRequestFailed)
    }


def _status(slot: SlotId, word: str | Sequence[str], size: ResourceSpec) -> SlotStatus:
    match word:
        case "free":
            return SlotStatus(slot_id=slot, resources=size)
        case ["allocated", job, allocation]:
            return SlotStatus(slot_id=slot, allocation_id=AllocationId(allocation), job_id=JobId(job), resources=size)
        case unknown:
            raise UnknownWordError(str(unknown))


_GIVEN = {
    *("kind", "new_workers", "task_manager_answers", "request_timeout_ms", "task_manager_timeout_ms", "strategy"),
    *("slots_per_new_worker", "fail_unfulfillable", "can_start_workers", "request_profile", "free_slots"),
    "free_slots_columns",
}
_STEP = {
    *("do", "want", "tm", "slots", "allocation", "job", "profile", "slot", "ms", "answer", "cause", "on"),
    *("task_manager_can_be_released", "before_answer"),
}
