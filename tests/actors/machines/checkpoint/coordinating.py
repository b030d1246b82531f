"""Drives the coordinator's state machine with virtual timers, an id counter, and a storage that replies at once or on
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from flykka.actors.checkpoint_coordinator.master_hooks import MasterHooks, MasterTriggerRestoreHook, hook_failed
from flykka.actors.errors import MasterHookError
from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.coordinator import CheckpointCoordinatorMachine
from flykka.actors.machines.checkpoint.events import CoordinatorEffect, CoordinatorEvent
from flykka.actors.machines.checkpoint.pending import CoordinatedJob, PlannedTask
from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.actors.machines.read_model.checkpoint_stats_tracker import CheckpointStatsTracker
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointMetrics,
    CompletedCheckpoint,
    DeclineCheckpoint,
    SnapshotType,
)
from flykka.messages.checkpointing.statistics import CheckpointTriggered, SubtasksAcknowledged
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIds,
    CheckpointIdsNotDrawn,
    CheckpointsRecovered,
    CoordinatedTaskStateChanged,
    Disposed,
    MasterHookRestoreFailed,
    MasterHooksRestored,
    MasterHooksTriggered,
    MetadataWriteFailed,
    MetadataWritten,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    OperatorSubtaskState,
    SharedStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId
from flykka.runtime.errors import serialized

JOB = JobId("job")
E = TypeVar("E")
HookEffect = events.TriggerMasterHooks | events.RestoreMasterHooks | events.CloseMasterHooks


def settings(**changed: Any) -> CheckpointingSettings:
    return CheckpointingSettings(directory="/checkpoints", **{"max_concurrent": 1_000, **changed})


def planned_task(
    attempt: str, state: ExecutionState = ExecutionState.RUNNING, *, is_source: bool = True, **changed: Any
) -> PlannedTask:
    alone = {"name": attempt, "vertex_id": JobVertexId(attempt), "subtask": 0, "parallelism": 1, "max_parallelism": 128}
    return PlannedTask(attempt=ExecutionAttemptId(attempt), state=state, is_source=is_source, **{**alone, **changed})


def snapshot(*, shared: Iterable[str] = (), exclusive: Iterable[str] = ()) -> TaskStateSnapshot:
    return TaskStateSnapshot(
        operators=(
            OperatorSubtaskState(
                operator_id=OperatorId("operator"),
                shared=tuple(SharedStateHandle(state_id=name, path=name, rows=1, size_bytes=1) for name in shared),
                exclusive=tuple(ExclusiveStateHandle(path=name, size_bytes=1) for name in exclusive),
            ),
        )
    )


def acknowledgement(
    attempt: str,
    checkpoint_id: int,
    state: TaskStateSnapshot | None = None,
    *,
    job: JobId = JOB,
    metrics: CheckpointMetrics | None = None,
) -> AcknowledgeCheckpoint:
    return AcknowledgeCheckpoint(
        job_id=job,
        attempt=ExecutionAttemptId(attempt),
        checkpoint_id=checkpoint_id,
        state=state,
        metrics=metrics or CheckpointMetrics(),
    )


class Ids:
    def __init__(self) -> None:
        self.next = 1

    def draw(self) -> int:
        self.next += 1
        return self.next - 1

    def skip_to(self, checkpoint_id: int) -> None:
        self.next = max(self.next, checkpoint_id)


class Coordination:
    """Passes events to the machine and executes the returned effects. `log` contains every effect so far, in order."""

    def __init__(
        self,
        *tasks: PlannedTask,
        operator_coordinators: bool = False,
        storage_answers: bool = True,
        hooks: Sequence[MasterTriggerRestoreHook] = (),
        recovers: bool = True,
        **changed: Any,
    ) -> None:
        self.hooks = MasterHooks(hooks)
        self.machine = CheckpointCoordinatorMachine(
            CoordinatedJob(job_id=JOB),
            settings(**changed),
            operator_coordinators=operator_coordinators,
            master_hooks=self.hooks.identifiers,
        )
        self.stats = CheckpointStatsTracker({task.vertex_id: task.parallelism for task in tasks})
        self.now = 0
        self.log: list[CoordinatorEffect] = []
        self.ids = Ids()
        self.timers: dict[str, int] = {}
        self.due: dict[str, Any] = {}
        self.storage_answers = storage_answers
        self.storage_fails = self.counter_fails = False
        self.while_an_id_is_drawn: Callable[[], None] = lambda: None
        if recovers:
            self.recover()
        if tasks:
            self.handle(events.TasksChanged(tasks=tasks))

    def handle(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        already = len(self.log)
        made = self.machine.handle(event, self.now)
        self.machine.check()
        self.log += made
        for effect in made:
            self._report(effect)
            self._answer(effect)
        return self.log[already:]

    def recover(
        self, *completed: CompletedCheckpoint, adopted: CompletedCheckpoint | None = None
    ) -> list[CoordinatorEffect]:
        ids = CheckpointIds(first=self.ids.next, count=1)
        return self.handle(CheckpointsRecovered(ids=ids, completed=completed, adopted=adopted))

    def trigger(self, properties: CheckpointProperties | None = None) -> list[CoordinatorEffect]:
        return self.handle(events.TriggerRequested(properties=properties or CheckpointProperties()))

    def acknowledge(
        self, attempt: str, checkpoint_id: int, state: TaskStateSnapshot | None = None, **changed: Any
    ) -> list[CoordinatorEffect]:
        return self.handle(acknowledgement(attempt, checkpoint_id, state, **changed))

    def decline(
        self,
        attempt: str,
        checkpoint_id: int,
        reason: CheckpointDeclineReason = CheckpointDeclineReason.CHECKPOINT_DECLINED,
        cause: SerializedThrowable | None = None,
    ) -> list[CoordinatorEffect]:
        return self.handle(
            DeclineCheckpoint(
                job_id=JOB,
                attempt=ExecutionAttemptId(attempt),
                checkpoint_id=checkpoint_id,
                reason=reason,
                cause=cause,
            )
        )

    def set_state(self, attempt: str, state: ExecutionState) -> list[CoordinatorEffect]:
        return self.handle(CoordinatedTaskStateChanged(job_id=JOB, attempt=ExecutionAttemptId(attempt), state=state))

    def written(self, checkpoint_id: int) -> list[CoordinatorEffect]:
        return self.handle(MetadataWritten(checkpoint_id=checkpoint_id, path=f"chk-{checkpoint_id}"))

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while due := sorted((at, timer) for timer, at in self.timers.items() if at <= end):
            self.now, timer = due[0]
            del self.timers[timer]
            self.handle(self.due.pop(timer))
        self.now = end

    def effects(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.log if isinstance(effect, kind)]

    def disposed(self) -> list[str]:
        return [
            path
            for effect in self.effects(events.Dispose)
            for path in (*effect.checkpoints, *(handle.path for handle in effect.state))
        ]

    def written_checkpoints(self) -> list[CompletedCheckpoint]:
        ids = {each.checkpoint_id for each in self.effects(CheckpointCompleted)}
        writes = self.effects(events.WriteMetadata)
        return [write.checkpoint for write in writes if write.checkpoint.checkpoint_id in ids]

    def completed(self) -> list[int]:
        return [checkpoint.checkpoint_id for checkpoint in self.machine.completed]

    def _report(self, effect: CoordinatorEffect) -> None:
        match effect:
            case CheckpointTriggered() | SubtasksAcknowledged() | CheckpointAborted() | CheckpointCompleted():
                self.stats.on_message(effect)
            case _:
                pass

    def _answer(self, effect: CoordinatorEffect) -> None:
        match effect:
            case events.DrawCheckpointId() if self.counter_fails:
                cause = SerializedThrowable(type_name="StoreUnavailableError", message="the store cannot be reached")
                self.handle(CheckpointIdsNotDrawn(cause=cause))
            case events.DrawCheckpointId():
                self.while_an_id_is_drawn()
                self.handle(events.CheckpointIdDrawn(checkpoint_id=self.ids.draw()))
            case StartTimer(key=key, delay_ms=delay_ms, message=message):
                self.timers[key], self.due[key] = self.now + delay_ms, message
            case CancelTimer(key=key):
                self.timers.pop(key, None)
            case events.WriteMetadata(checkpoint=checkpoint) if self.storage_fails:
                cause = SerializedThrowable(type_name="OSError", message="disk full")
                self.handle(MetadataWriteFailed(checkpoint_id=checkpoint.checkpoint_id, cause=cause))
            case events.WriteMetadata(checkpoint=checkpoint) if self.storage_answers:
                self.written(checkpoint.checkpoint_id)
            case events.Dispose() | events.DeleteJob() if self.storage_answers:
                self.handle(Disposed())
            case events.TriggerMasterHooks() | events.RestoreMasterHooks() | events.CloseMasterHooks():
                self._run_hooks(effect)
            case _:
                pass

    def _run_hooks(self, effect: HookEffect) -> None:
        match effect:
            case events.TriggerMasterHooks(checkpoint_id=checkpoint_id, timestamp_ms=timestamp_ms):
                try:
                    states = self.hooks.trigger(checkpoint_id, timestamp_ms)
                except MasterHookError as failure:
                    self.handle(hook_failed(checkpoint_id, failure))
                else:
                    self.handle(MasterHooksTriggered(checkpoint_id=checkpoint_id, states=states))
            case events.RestoreMasterHooks(version=version, checkpoint_id=restored_id, states=restored):
                try:
                    self.hooks.restore(restored_id, restored)
                except MasterHookError as failure:
                    self.handle(MasterHookRestoreFailed(version=version, cause=serialized(failure)))
                else:
                    self.handle(MasterHooksRestored(version=version))
            case events.CloseMasterHooks():
                self.hooks.close()


SOURCE, SINK = planned_task("source"), planned_task("sink", is_source=False)


def two_tasks(**changed: Any) -> Coordination:
    return Coordination(SOURCE, SINK, **changed)


def complete_checkpoint(harness: Coordination, checkpoint_id: int, **state: Any) -> None:
    harness.trigger()
    harness.acknowledge("source", checkpoint_id)
    harness.acknowledge("sink", checkpoint_id, snapshot(**state) if state else None)


def completed_checkpoint(
    checkpoint_id: int, *, job: str = "job", savepoint: bool = False, **others: Any
) -> CompletedCheckpoint:
    """Return a checkpoint with arbitrary content; only its identity matters."""
    return CompletedCheckpoint(
        job_id=JobId(job),
        checkpoint_id=checkpoint_id,
        timestamp_ms=0,
        duration_ms=0,
        task_states=(),
        snapshot_type=SnapshotType.SAVEPOINT if savepoint else SnapshotType.CHECKPOINT,
        path=f"chk-{checkpoint_id}",
        **others,
    )


def shared(name: str) -> SharedStateHandle:
    return SharedStateHandle(state_id=name, path=name, rows=1, size_bytes=1)
