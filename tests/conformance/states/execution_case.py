"""Words of area 05 for one attempt, translated to calls of `Execution`.

If the TaskManager cannot reply, the attempt loses its slot, because that is how flykka detects an unreachable
TaskManager: calls do not fail, there are only messages and DeathWatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.machines.effects import Tell
from flykka.actors.machines.graph.events import ExecutionMoved
from flykka.actors.machines.graph.execution import AttemptEffect, Execution, LeaveSlot, ProtocolViolated
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import CancelTask, ExecutionState, TaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.graph.graphs import failure, slot
from tests.conformance.case_files import UnknownWordError, only_known_words

_WAY_TO: dict[str, tuple[str, ...]] = {
    "CREATED": (),
    "SCHEDULED": ("allocate",),
    "DEPLOYING": ("deploy",),
    "RUNNING": ("deploy", "switch_to_running"),
    "FINISHED": ("deploy", "switch_to_running", "report_finished"),
    "CANCELING": ("deploy", "switch_to_running", "cancel"),
    "CANCELED": ("deploy", "switch_to_running", "cancel", "report_canceled"),
    "FAILED": ("deploy", "switch_to_running", "fail"),
}
_GIVEN = {"component", "state", "slot", "restore_state", "cancel_rpc", "submit_rpc"}
_STEP = {"do", "want", "slot"}


class ExecutionCase:
    """An attempt under test, with the effects of the last step and of the earlier steps."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, _GIVEN)
        self._slot = _Slot(given.get("slot", "available at once"))
        self._refusal = _refusal(given.get("submit_rpc"))
        self._is_unreachable = _is_unreachable(given.get("cancel_rpc"))
        self._is_deployed_with_its_slot = False
        self._now = 1
        self._effects: list[AttemptEffect] = []
        self._returned: list[str] = []
        self._accepted: bool | None = None
        self._error: str | None = None
        self._execution = Execution(
            attempt=ExecutionAttemptId("job_v_0_0"),
            number=0,
            vertex_id=JobVertexId("v"),
            subtask=0,
            name="v (1/1)",
            now=self._now,
        )
        if given.get("restore_state") is not None:
            if given["restore_state"] != "present":
                raise UnknownWordError(f"restore_state {given['restore_state']!r}")
            self._execution.restore = TaskStateSnapshot()
        for step in _WAY_TO[given["state"]]:
            self.do({"do": step})
        assert self._execution.state == given["state"]
        self._first_cause = self._execution.failure
        self._effects.clear()
        self._returned.clear()

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _STEP)
        self._now += 1
        self._error = None
        try:
            self._effects += self._step(step)
        except IllegalTransitionError:
            self._error = "illegal state"
        if self._is_unreachable and self._effects and _asks_to_cancel(self._effects[-1]):
            self._effects += self._execution.fail(failure("unreachable"), self._now)

    def _step(self, step: Mapping[str, Any]) -> list[AttemptEffect]:
        execution, now = self._execution, self._now
        match step["do"]:
            case "schedule":
                self._is_deployed_with_its_slot = True
                return self._schedule()
            case "allocate":
                return self._schedule()
            case "deploy" | "deploy_allocated":
                if execution.slot is None:
                    execution.assign(slot(self._slot.name))
                return self._deploy()
            case "assign_other_slot":
                self._accepted = execution.assign(slot("other"))
            case "slot_arrives":
                return self._slot_arrives(step.get("slot", self._slot.name))
            case "cancel":
                return execution.cancel(now)
            case "fail":
                return execution.fail(failure("second" if execution.failure else "first"), now)
            case "switch_to_running" | "report_running":
                return self._report(ExecutionState.RUNNING)
            case "report_finished":
                return self._report(ExecutionState.FINISHED)
            case "report_canceled":
                return self._report(ExecutionState.CANCELED)
            case "report_failed":
                return self._report(ExecutionState.FAILED)
            case unknown:
                raise UnknownWordError(unknown)
        return []

    def _schedule(self) -> list[AttemptEffect]:
        """Request a slot, which exists at once or is offered in a later step."""
        was_created = self._execution.state is ExecutionState.CREATED
        scheduled = self._execution.schedule(self._now)
        return scheduled + self._slot_arrives(self._slot.name) if was_created and self._slot.is_there else scheduled

    def _slot_arrives(self, name: str) -> list[AttemptEffect]:
        if "released" in name:
            self._slot.is_dead = True
        if not self._execution.assign(slot(name)):
            self._returned.append(name)
            return []
        return self._deploy() if self._is_deployed_with_its_slot else []

    def _deploy(self) -> list[AttemptEffect]:
        if self._slot.is_dead:
            return self._execution.fail(failure("the slot is lost"), self._now)
        deployed = self._execution.deploy(self._now)
        refused = None if self._refusal is None else self._execution.fail(failure(self._refusal), self._now)
        return deployed + (refused or [])

    def _report(self, state: ExecutionState) -> list[AttemptEffect]:
        cause = failure("reported") if state is ExecutionState.FAILED else None
        update = TaskExecutionState(attempt=self._execution.attempt, state=state, failure=cause)
        return self._execution.update(update, self._now)

    def see(self, word: str) -> Any:
        execution = self._execution
        leaves = [effect for effect in self._effects if isinstance(effect, LeaveSlot)]
        match word:
            case "state":
                return execution.state
            case "error":
                return self._error
            case "accepted":
                return self._accepted
            case "allocation":
                return "failed" if any(leave.slot is None for leave in leaves) else "open"
            case "slot_requests_cancelled":
                return sum(leave.slot is None for leave in leaves)
            case "slot_released":
                return any(leave.slot is not None for leave in leaves)
            case "returned_slots":
                return self._returned + [leave.slot.allocation_id for leave in leaves if leave.slot]
            case "failure_cause_kept":
                return execution.failure is not None
            case "second_cause_ignored":
                return execution.failure == self._first_cause
            case "whole_job_failed":
                return any(isinstance(effect, ProtocolViolated) for effect in self._effects)
            case "restore_state":
                return "present" if execution.restore is not None else None
            case "order":
                return [name for effect in self._effects if (name := _announced(effect))]
            case "cancel_rpcs":
                return sum(_asks_to_cancel(effect) for effect in self._effects)
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        set_at = self._execution.timestamps
        match word:
            case "failure_cause_contains":
                return self._execution.failure is not None and wanted in self._execution.failure.message
            case "timestamps_set":
                return all(set_at.get(ExecutionState(state), 0) > 0 for state in wanted)
            case "timestamps_unset":
                return all(ExecutionState(state) not in set_at for state in wanted)
            case _:
                return bool(self.see(word) == wanted)


class _Slot:
    """The slot of a case: its name, if it has one, whether it exists at once, and whether its TaskManager is alive."""

    def __init__(self, words: str) -> None:
        self.is_dead = "released" in words
        self.is_there = not any(later in words for later in ("pending", "later", "queued"))
        has_name = " " not in words and self.is_there
        self.name = words if has_name else "s1"
        if not has_name and self.is_there and "available" not in words and not self.is_dead:
            raise UnknownWordError(f"slot {words!r}")


def _refusal(words: str | None) -> str | None:
    if words in (None, "succeeds"):
        return None
    assert words is not None
    if not words.startswith("fails with "):
        raise UnknownWordError(f"submit_rpc {words!r}")
    return words.removeprefix("fails with ")


def _is_unreachable(words: str | None) -> bool:
    """Return whether the cancellation never arrives. A task that was not found is reported by its own end."""
    if words not in (None, "succeeds", "always fails", "does not find the task"):
        raise UnknownWordError(f"cancel_rpc {words!r}")
    return words == "always fails"


def _asks_to_cancel(effect: AttemptEffect) -> bool:
    return isinstance(effect, Tell) and isinstance(effect.message, CancelTask)


def _announced(effect: AttemptEffect) -> str | None:
    match effect:
        case LeaveSlot():
            return "slot returned"
        case ExecutionMoved(state=state) if state in EXECUTION_TERMINAL:
            return "termination announced"
        case _:
            return None
