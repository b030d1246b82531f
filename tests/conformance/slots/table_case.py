"""A TaskManager's SlotTable under test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flykka.actors.machines.effects import CancelTimer, StartTimer, Tell
from flykka.actors.machines.slots.slot_table import (
    RunTask,
    SlotTable,
    SlotTableEffect,
    SlotTableEvent,
    TaskEnded,
    TaskSlotState,
)
from flykka.messages.control.registration import ReleaseTaskManager
from flykka.messages.control.slots import AllocateSlot, AllocateSlotConfirmed, FreeSlot, SlotAvailable, SlotTimedOut
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.tasks.task import FailTask
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message
from tests.actors.machines.slots.slot_table_events import requested, submitted
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

_HERE = TaskManagerId("task-manager-1")


class TableCase:
    """A slot table under test. A slot is activated by a task that arrives for the slot and ends."""

    def __init__(self, case: Case) -> None:
        only_known_words("given", case["given"], {"kind", "slots"})
        self._table = SlotTable(_HERE, case["given"]["slots"])
        self._last_index = case["given"]["slots"] - 1
        self._now = 0
        self._effects: list[SlotTableEffect] = []
        self._step: list[SlotTableEffect] = []
        self._timers: dict[AllocationId, int] = {}
        self._timeout_ms: dict[AllocationId, int] = {}
        self._timed_out: list[AllocationId] = []
        self._probes = 0
        self._result: object = None

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, {"do", "want", "index", "job", "allocation", "timeout_ms", "task", "ms"})
        self._step = []
        self._result = None
        allocation = AllocationId(step.get("allocation", ""))
        match step["do"]:
            case "allocate":
                self._timeout_ms[allocation] = step.get("timeout_ms", 1_000_000)
                self._tell(self._requested(step, allocation))
                self._result = any(isinstance(said, AllocateSlotConfirmed) for said in self._said())
            case "mark_active":
                self._result = self._mark_active(self._job_of(allocation), allocation)
            case "try_mark_active":
                self._result = self._mark_active(step["job"], allocation)
            case "add_task":
                self._submit(self._job_of(allocation), allocation, step["task"])
                self._result = any(isinstance(effect, RunTask) for effect in self._step)
            case "remove_task" | "task_ends":
                self._tell(TaskEnded(attempt=ExecutionAttemptId(step["task"])))
            case "free":
                self._tell(FreeSlot(allocation_id=allocation))
                freed = [said for said in self._said() if isinstance(said, SlotAvailable)]
                self._result = int(freed[0].slot_id.rpartition("/")[2]) if freed else "not free yet"
            case "report":
                pass
            case "close":
                self._tell(ReleaseTaskManager())
            case "advance":
                self._now += step["ms"]
                for due in [each for each, at in self._timers.items() if at <= self._now]:
                    self._timed_out.append(due)
                    self._tell(SlotTimedOut(allocation_id=due))
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        held = [status for status in self._table.report().slots if status.allocation_id is not None]
        states = self._table.slot_states
        match word:
            case "result":
                return self._result == wanted
            case "active":
                active: dict[str, list[str]] = defaultdict(list)
                for status in held:
                    if states[status.slot_id] is TaskSlotState.ACTIVE:
                        active[str(status.job_id)].append(str(status.allocation_id))
                return {job: sorted(active[job]) for job in wanted} == {job: sorted(wanted[job]) for job in wanted}
            case "allocated":
                return sorted(_index(status.slot_id) for status in held) == sorted(wanted)
            case "free":
                free = [_index(slot) for slot, state in states.items() if state is TaskSlotState.FREE]
                return free == sorted(wanted)
            case "allocated_for":
                mine = {job: sorted(_index(each.slot_id) for each in held if each.job_id == job) for job in wanted}
                return mine == {job: sorted(indexes) for job, indexes in wanted.items()}
            case "failed_tasks":
                messages = [effect.message for effect in self._step if isinstance(effect, Tell)]
                stopped = [message.attempt for message in messages if isinstance(message, FailTask)]
                return sorted(stopped) == sorted(wanted)
            case "free_slot_action":
                freed = [said.allocation_id for said in self._said() if isinstance(said, SlotAvailable)]
                return sorted(freed) == sorted(wanted)
            case "index":
                [confirmed] = [said for said in self._said() if isinstance(said, AllocateSlotConfirmed)]
                return _index(confirmed.slot_id) == wanted
            case "slots":
                reported = {str(_index(each.slot_id)): each.allocation_id for each in self._table.report().slots}
                return reported == wanted
            case "closed":
                return self._table.is_closed is wanted
            case "timed_out":
                return sorted(self._timed_out) == sorted(wanted)
            case _:
                raise UnknownWordError(word)

    def _requested(self, step: Mapping[str, Any], allocation: AllocationId) -> AllocateSlot:
        if step["index"] != "dynamic":
            return requested(allocation, step["index"], JobId(step["job"]))
        # The ResourceManager numbers dynamic slots after the fixed slots, and never reuses a number.
        self._last_index += 1
        return replace(requested(allocation, self._last_index, JobId(step["job"])), cut=ResourceSpec())

    def _tell(self, event: SlotTableEvent) -> None:
        effects = self._table.handle(event, self._now)
        self._table.check()
        self._step += effects
        for effect in effects:
            match effect:
                case StartTimer(message=SlotTimedOut(allocation_id=allocation_id)):
                    self._timers[allocation_id] = self._now + self._timeout_ms[allocation_id]
                case CancelTimer(key=key) if key.startswith("slot/"):
                    del self._timers[AllocationId(key.removeprefix("slot/"))]

    def _said(self) -> list[Message]:
        return [effect.message for effect in self._step if isinstance(effect, Tell)]

    def _job_of(self, allocation: AllocationId) -> str:
        jobs = [each.job_id for each in self._table.report().slots if each.allocation_id == allocation]
        return str(jobs[0]) if jobs else "nobody"

    def _submit(self, job: str, allocation: AllocationId, task: str) -> None:
        self._tell(submitted(task, allocation, JobId(job)))

    def _mark_active(self, job: str, allocation: AllocationId) -> bool:
        self._probes += 1
        probe = f"probe-{self._probes}"
        before = len(self._step)
        self._submit(job, allocation, probe)
        is_run = any(isinstance(effect, RunTask) for effect in self._step[before:])
        if is_run:
            self._tell(TaskEnded(attempt=ExecutionAttemptId(probe)))
        return is_run


def _index(slot: str) -> int:
    return int(slot.rpartition("/")[2])
