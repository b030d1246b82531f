"""Area 01, components `coordinator` and `job`: translates the words of a case to events, and compares the case's
expectations with the machine's state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEvent
from flykka.actors.machines.checkpoint.properties import for_checkpoint, for_savepoint
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    StartCheckpointScheduler,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted, JobStatus
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobId
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task, snapshot
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.checkpoint_coordinator.words import reason

CONFIG = {
    "interval_ms": "interval_ms",
    "timeout_ms": "timeout_ms",
    "min_pause_ms": "min_pause_ms",
    "max_concurrent": "max_concurrent",
    "tolerable_failures": "tolerable_failures",
    "retain": "retained",
}
WORDS = {"do", "want", "task", "cp", "state", "job", "reason", "ms", "status"} | {
    "kind",
    "periodic",
    "during_id_assignment",
    "rpc",
}
"""The words of all steps; steps with words of their own check these words separately."""

DEFAULTS = {"interval_ms": 600_000, "timeout_ms": 600_000, "max_concurrent": 1_000_000}


class CoordinatorCase:
    def __init__(self, case: Case) -> None:
        given = case["given"]
        self._case = case
        self._result: CheckpointDeclineReason | str = "ok"
        match given["component"]:
            case "coordinator":
                self._world = self._coordinator(given)
            case "job":
                only_known_words("given", given, {"component", "tasks", "edges", "restart", "checkpointing"})
                self._tasks = {name: planned_task(name, ExecutionState.CREATED) for name in given["tasks"]}
                self._world = Coordination(*self._tasks.values(), interval_ms=600_000)
            case component:
                raise UnknownWordError(component)

    def run(self) -> None:
        for step in self._case["steps"]:
            self._do(step)
            self._check(step.get("want", {}))
        self._check(self._case["expect"])

    def _coordinator(self, given: dict[str, Any]) -> Coordination:
        roles = {"trigger", "ack", "commit"}
        others = {"component", "states", "not_executed", "config", "savepoint_mode", "store_fails"}
        only_known_words("given", given, roles | others | {"checkpoints_after_tasks_finish"})
        only_known_words("config", given.get("config", {}), set(CONFIG))
        states = dict.fromkeys(given.get("not_executed", ()), ExecutionState.CREATED)
        states |= {name: ExecutionState(state) for name, state in given.get("states", {}).items()}
        self._tasks = {
            name: planned_task(
                name,
                states.get(name, ExecutionState.RUNNING),
                is_source=name in given["trigger"],
                acknowledges=name in given["ack"],
                commits=name in given["commit"],
            )
            for name in dict.fromkeys(given["trigger"] + given["ack"] + given["commit"])
        }
        config = DEFAULTS | {CONFIG[word]: number for word, number in given.get("config", {}).items()}
        harness = Coordination(*self._tasks.values(), **config)
        harness.storage_fails = given.get("store_fails", False)
        return harness

    def _do(self, step: dict[str, Any]) -> None:
        only_known_words(step["do"], step, WORDS)
        self._result = "ok"
        harness = self._world
        match step["do"]:
            case "trigger":
                self._trigger(step)
            case "ack":
                only_known_words("ack", step, {"do", "want", "task", "cp", "state", "job"})
                job = JobId(step.get("job", "job"))
                made = harness.acknowledge(step["task"], step["cp"], _state(step.get("state")), job=job)
                if any(isinstance(effect, CheckpointAborted) for effect in made):
                    self._result = "error"
            case "decline":
                only_known_words("decline", step, {"do", "want", "task", "cp", "reason"})
                harness.decline(step["task"], step["cp"], reason(step.get("reason", "CHECKPOINT_DECLINED")))
            case "advance":
                harness.advance(step["ms"])
            case "start_scheduler":
                harness.handle(StartCheckpointScheduler(job_id=JOB))
            case "stop_scheduler":
                harness.handle(StopCheckpointScheduler(job_id=JOB))
            case "abort_pending":
                # Pending checkpoints end with the attempts that take them. In these cases the attempts continue.
                harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=reason(step["reason"])))
                harness.handle(events.TasksChanged(tasks=tuple(self._tasks.values())))
            case "shutdown":
                harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus(step["status"])))
            case "set_state":
                self._set_state(step["task"], ExecutionState(step["state"]))
            case "all_running":
                for name in self._tasks:
                    self._set_state(name, ExecutionState.RUNNING)
            case "fail_task":
                self._set_state(step["task"], ExecutionState.FAILED)
            case "run_restart":
                harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
                self._tasks = {name: replace(each, state=ExecutionState.CREATED) for name, each in self._tasks.items()}
                harness.handle(events.TasksChanged(tasks=tuple(self._tasks.values())))
            case "fail_job":
                harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))
            case "suspend_job":
                harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.SUSPENDED))
            case "finish_all_tasks":
                for name in self._tasks:
                    self._set_state(name, ExecutionState.FINISHED)
                harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))
            case word:
                raise UnknownWordError(word)

    def _set_state(self, name: str, state: ExecutionState) -> None:
        if name in self._tasks:
            self._tasks[name] = replace(self._tasks[name], state=state)
        self._world.set_state(name, state)

    def _do_all(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            self._do(step)

    def _trigger(self, step: dict[str, Any]) -> None:
        only_known_words("trigger", step, {"do", "want", "kind", "periodic", "during_id_assignment", "rpc"})
        self._world.while_an_id_is_drawn = lambda: self._do_all(step.get("during_id_assignment", []))
        made = self._world.handle(_request(step))
        declined = [effect.reason for effect in made if isinstance(effect, events.TriggerDeclined)]
        self._result = declined[-1] if declined else "ok"
        for name, what in step.get("rpc", {}).items():
            if what != "task finishes, trigger call fails":
                raise UnknownWordError(what)
            self._set_state(name, ExecutionState.FINISHED)
            refused = CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY
            self._world.decline(name, max(self._world.machine.pending), refused)

    def _check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word, value) == value, word

    def _shows(self, word: str, value: Any) -> Any:
        harness = self._world
        pending = harness.machine.pending
        match word:
            case "all_wants_hold":
                return True
            case "result":
                named = value if value in ("ok", "error") else reason(value)
                return value if self._result == named else self._result
            case "pending":
                return list(pending)
            case "pending_count":
                return len(pending)
            case "completed":
                return harness.completed()
            case "gone":
                return [number for number in value if number not in pending and number < harness.ids.next]
            case "timers":
                return sum(timer.startswith("timeout-") for timer in harness.timers)
            case "scheduler_armed":
                return harness.machine.is_scheduler_armed
            case "acked":
                # A finished task counts as acknowledged.
                return {
                    number: len(pending[int(number)].acknowledged) + len(pending[int(number)].plan.finished)
                    for number in value
                }
            case "unacked":
                return {number: len(pending[int(number)].awaited) for number in value}
            case "futures":
                return {number: self._future(int(number)) for number in value}
            case _:
                return self._observed_messages(word, value)

    def _observed_messages(self, word: str, value: Any) -> Any:
        harness = self._world
        disposed, registered = self._discarded(), self._registrations()
        match word:
            case "triggered":
                sent = [[effect.attempt, effect.checkpoint_id] for effect in harness.effects(TriggerCheckpoint)]
                return _in_any_order(sent, value)
            case "triggered_ids":
                return sorted({effect.checkpoint_id for effect in harness.effects(TriggerCheckpoint)})
            case "notified_complete":
                notified = [
                    [effect.attempt, effect.checkpoint_id] for effect in harness.effects(NotifyCheckpointComplete)
                ]
                return _in_any_order(notified, value)
            case "abort_notifications":
                aborts = [
                    {"task": effect.attempt, "cp": effect.checkpoint_id, "latest_completed": effect.latest_completed_id}
                    for effect in harness.effects(NotifyCheckpointAborted)
                ]
                return _in_any_order(aborts, value)
            case "abort_notified_tasks":
                return _in_any_order([message.attempt for message in harness.effects(NotifyCheckpointAborted)], value)
            case "discarded":
                return [name for name in value if disposed[name] == 1]
            case "kept":
                return [name for name in value if disposed[name] == 0]
            case "shared_registered":
                return [name for name in value if registered[_shared(name)] == 1]
            case "not_shared_registered":
                return [name for name in value if registered[_shared(name)] == 0]
            case "aborted":
                aborted = {str(message.checkpoint_id): message.reason for message in harness.effects(CheckpointAborted)}
                wanted = {number: reason(name) for number, name in value.items()}
                return value if wanted.items() <= aborted.items() else aborted
            case "job_failures":
                return len(harness.effects(CheckpointFailuresExceeded))
            case "coordinator_shut_down":
                return any(
                    declined.reason is CheckpointDeclineReason.COORDINATOR_SHUTDOWN
                    for declined in harness.trigger()
                    if isinstance(declined, events.TriggerDeclined)
                )
            case "id_counter_shut_down_with" | "store_shut_down_with":
                # The counter and the store are part of the coordinator and end with it.
                return harness.machine.shut_down_with
            case _:
                raise UnknownWordError(word)

    def _discarded(self) -> Counter[str]:
        """Count the discards of each state, whether it was discarded separately or with the whole folder of the job."""
        harness = self._world
        discarded = Counter(harness.disposed())
        if harness.effects(events.DeleteJob):
            written = harness.written_checkpoints()
            checkpoints = [each for each in written if each.snapshot_type is SnapshotType.CHECKPOINT]
            of_job = {handle.path for checkpoint in checkpoints for handle in exclusive_state_of(checkpoint)}
            of_job |= {handle.path for checkpoint in checkpoints for handle in shared_state_of(checkpoint).values()}
            discarded.update(of_job - discarded.keys())
        return discarded

    def _future(self, checkpoint_id: int) -> str:
        stats = self._world.stats.lookup(checkpoint_id)
        assert stats is not None
        words = {
            CheckpointStatsStatus.IN_PROGRESS: "open",
            CheckpointStatsStatus.COMPLETED: "done",
            CheckpointStatsStatus.FAILED: "failed",
        }
        return words[stats.status]

    def _registrations(self) -> Counter[str]:
        completed = self._world.written_checkpoints()
        return Counter(state_id for checkpoint in completed for state_id in shared_state_of(checkpoint))


def _in_any_order(messages: list[Any], wanted: list[Any]) -> list[Any]:
    """Return the messages in the order of the case, because the order between tasks does not matter."""
    return wanted if sorted(messages, key=str) == sorted(wanted, key=str) else messages


def _request(step: dict[str, Any]) -> CoordinatorEvent:
    is_periodic = step.get("periodic", False)
    match step.get("kind", "checkpoint"):
        case "checkpoint":
            return events.TriggerRequested(properties=for_checkpoint(), is_periodic=is_periodic)
        case "savepoint":
            return events.TriggerRequested(properties=for_savepoint(), is_periodic=is_periodic)
        case "sync_savepoint":
            return StopCheckpointRequest(job_id=JOB, target_location="savepoint")
        case kind:
            raise UnknownWordError(kind)


def _shared(name: str) -> str:
    return f"shared part of {name}"


def _state(word: Any) -> TaskStateSnapshot | None:
    """Return the state for a word: a plain name stands for state with a shared and an exclusive part; other cases
    specify the parts.
    """
    match word:
        case None:
            return None
        case str(name):
            return snapshot(exclusive=[name], shared=[_shared(name)])
        case {"private": private, "shared": shared, **others} if not others:
            return snapshot(exclusive=[private], shared=[shared])
        case _:
            raise UnknownWordError(word)
