"""Invariants of the coordinator under any order of events, and its final state."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.properties import for_checkpoint, for_savepoint
from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.state.handles import shared_state_of
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, SnapshotType, TriggerCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointingStopped,
    CheckpointTimedOut,
    Disposed,
    FinalCheckpointRequest,
    MetadataWriteFailed,
    RequestRestoreState,
    RestoreState,
    SavepointCompleted,
    SavepointFailed,
    StartCheckpointScheduler,
    StopCheckpointFailed,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task, snapshot

INTERVAL_MS, TIMEOUT_MS = 50, 200
BATCHES = 3
"""The number of batches of keyed state in a snapshot of a task: each checkpoint adds a batch and drops the oldest one.
"""


class Coordinating(RuleBasedStateMachine):
    """Tasks that acknowledge, decline, die and restart, a storage that replies late, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.life = 0
        self.harness = Coordination(
            storage_answers=False,
            interval_ms=INTERVAL_MS,
            timeout_ms=TIMEOUT_MS,
            max_concurrent=2,
            min_pause_ms=20,
            retained=2,
            tolerable_failures=2,
            max_concurrent_deletions=1,
        )
        self.acknowledged: dict[int, set[str]] = {}
        self.writing: list[int] = []
        self.disposals = 0
        self.stops = 0
        self.savepoints = 0
        self.last_of_former_life = 0
        self._deploy()

    @rule(ms=st.integers(1, 120))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule(stops=st.integers(0, 4))
    def the_job_runs_or_not(self, stops: int) -> None:
        self.harness.handle(StartCheckpointScheduler(job_id=JOB) if stops else StopCheckpointScheduler(job_id=JOB))

    @rule(savepoint=st.booleans())
    def somebody_wants_a_checkpoint(self, savepoint: bool) -> None:
        self.savepoints += savepoint
        properties = for_savepoint(f"savepoint {self.savepoints}") if savepoint else for_checkpoint()
        request_id = str(self.savepoints) if savepoint else None
        self.harness.handle(events.TriggerRequested(properties=properties, request_id=request_id))

    @rule(fails=st.booleans())
    def the_counter_of_ids_fails_or_is_back(self, fails: bool) -> None:
        self.harness.counter_fails = fails

    @rule()
    def the_input_is_at_its_end(self) -> None:
        self.harness.handle(FinalCheckpointRequest(job_id=JOB))

    @rule(savepoint=st.booleans(), drain=st.booleans())
    def somebody_stops_the_job(self, savepoint: bool, drain: bool) -> None:
        self.stops += 1
        folder = f"stopped with {self.stops}" if savepoint else None
        self.harness.handle(StopCheckpointRequest(job_id=JOB, target_location=folder, drain=drain, request_id="stop"))

    @precondition(lambda self: self._pending())
    @rule(data=st.data(), declines=st.integers(0, 5))
    def a_task_answers(self, data: st.DataObject, declines: int) -> None:
        checkpoint_id = data.draw(st.sampled_from(self._pending()))
        name = data.draw(st.sampled_from(self._names()))
        if declines == 0:
            self.harness.decline(name, checkpoint_id)
            return
        self._acknowledge(name, checkpoint_id)

    @precondition(lambda self: self._pending())
    @rule(data=st.data())
    def a_checkpoint_goes_well(self, data: st.DataObject) -> None:
        checkpoint_id = data.draw(st.sampled_from(self._pending()))
        for name in self._names():
            self._acknowledge(name, checkpoint_id)
        if checkpoint_id in self._under_way():
            self._write_ends(checkpoint_id)

    @precondition(lambda self: self._begun_in_this_life())
    @rule(data=st.data())
    def a_task_answers_late_or_twice(self, data: st.DataObject) -> None:
        checkpoint_id = data.draw(st.sampled_from(self._begun_in_this_life()))
        self._acknowledge(data.draw(st.sampled_from(self._names())), checkpoint_id)

    @precondition(lambda self: self._begun() and self.life > 1)
    @rule(data=st.data())
    def a_former_attempt_answers(self, data: st.DataObject) -> None:
        name, checkpoint_id = f"a{self.life - 1}", data.draw(st.sampled_from(self._begun()))
        if checkpoint_id <= self.last_of_former_life and name not in self.acknowledged.get(checkpoint_id, ()):
            self._acknowledge(name, checkpoint_id)

    @rule(runs=st.integers(0, 2))
    def a_task_changes(self, runs: int) -> None:
        self.harness.set_state(self._names()[0], ExecutionState.RUNNING if runs else ExecutionState.FAILED)

    @rule(spared=st.integers(0, 3))
    def the_job_fails_over(self, spared: int) -> None:
        if spared:
            return
        self.harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
        self.harness.handle(RequestRestoreState(job_id=JOB, version=self.life))
        self._deploy()

    @precondition(lambda self: self._under_way())
    @rule(data=st.data(), fails=st.integers(0, 4))
    def a_write_ends(self, data: st.DataObject, fails: int) -> None:
        checkpoint_id = data.draw(st.sampled_from(self._under_way()))
        if fails:
            self._write_ends(checkpoint_id)
        else:
            self.writing.append(checkpoint_id)
            cause = SerializedThrowable(type_name="OSError", message="disk full")
            self.harness.handle(MetadataWriteFailed(checkpoint_id=checkpoint_id, cause=cause))

    @precondition(lambda self: self.disposals < len(self._deletions()))
    @rule()
    def a_deletion_ends(self) -> None:
        self.disposals += 1
        self.harness.handle(Disposed())

    @invariant()
    def nothing_completes_without_every_acknowledgement(self) -> None:
        for effect in self.harness.effects(events.WriteMetadata):
            tasks = {str(entry.vertex_id) for entry in effect.checkpoint.task_states}
            assert len(tasks) == 2
            assert tasks <= self.acknowledged[effect.checkpoint.checkpoint_id]

    @invariant()
    def ids_only_grow(self) -> None:
        assert self._begun() == sorted(set(self._begun()))

    @invariant()
    def what_belongs_to_one_checkpoint_is_deleted_once(self) -> None:
        deleted = Counter(path for path in self.harness.disposed() if "batch" not in path)
        assert all(times == 1 for times in deleted.values()), deleted

    @invariant()
    def no_state_is_deleted_while_a_retained_checkpoint_refers_to_it(self) -> None:
        referred = {
            state_id for checkpoint in self.harness.machine.completed for state_id in shared_state_of(checkpoint)
        }
        paths = {checkpoint.path for checkpoint in self.harness.machine.completed}
        assert not (referred | paths) & set(self.harness.disposed())

    @invariant()
    def the_limit_of_concurrent_checkpoints_holds(self) -> None:
        limited = [pending for pending in self.harness.machine.pending.values() if not pending.properties.forced]
        assert len(limited) <= 2

    @invariant()
    def whatever_ended_was_reported_once(self) -> None:
        ended = [e.checkpoint_id for e in self.harness.effects(CheckpointCompleted)]
        ended += [e.checkpoint_id for e in self.harness.effects(CheckpointAborted)]
        assert len(ended) == len(set(ended))
        assert not set(ended) & set(self.harness.machine.pending)

    @invariant()
    def each_request_for_a_savepoint_is_answered_once(self) -> None:
        answered = Counter(self._answered())
        assert all(times == 1 for times in answered.values()), answered

    @invariant()
    def a_stop_fails_at_most_once(self) -> None:
        assert len(self.harness.effects(StopCheckpointFailed)) <= self.stops

    @invariant()
    def one_timer_runs_for_each_pending_checkpoint(self) -> None:
        timed = {int(timer.removeprefix("timeout-")) for timer in self.harness.timers if timer.startswith("timeout-")}
        # A checkpoint that is being added to the store can no longer time out, whether or not its timer fired.
        assert timed <= set(self.harness.machine.pending) <= timed | set(self._under_way())

    def teardown(self) -> None:
        """End the job. All requests must be answered, and a stopped job must retain its last checkpoint, even if that
        checkpoint is still being written when the job ends.
        """
        retained = [checkpoint.checkpoint_id for checkpoint in self.harness.machine.completed]
        retained += [each for each in self._under_way() if self._is_retained(each)]
        self.harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))
        while self._under_way():
            self._write_ends(self._under_way()[0])
        while self.disposals < len(self._deletions()):
            self.disposals += 1
            self.harness.handle(Disposed())
        [stopped] = self.harness.effects(CheckpointingStopped)
        paths = {e.checkpoint_id: e.path for e in self.harness.effects(CheckpointCompleted)}
        kept = [paths[max(retained)]] if stopped.retained else []
        assert stopped.retained == tuple(kept)
        assert len(kept) <= (1 if self.stops else 0)
        assert len(self.harness.effects(events.DeleteJob)) == (0 if kept else 1)
        assert not set(kept) & set(self.harness.disposed())
        assert self.harness.machine.pending == {}
        assert self.harness.timers == {}
        assert len(self.harness.effects(RestoreState)) == self.life - 1
        assert len(self._answered()) == self.savepoints

    def _answered(self) -> list[str]:
        request_ids = [report.request_id for report in self.harness.effects(SavepointCompleted)]
        request_ids += [report.request_id for report in self.harness.effects(SavepointFailed)]
        return [request_id for request_id in request_ids if request_id != "stop"]

    def _names(self) -> list[str]:
        return [f"a{self.life}", f"b{self.life}"]

    def _deploy(self) -> None:
        self.life += 1
        self.last_of_former_life = max(self._begun(), default=0)
        names = self._names()
        tasks = tuple(planned_task(name, is_source=name.startswith("a")) for name in names)
        self.harness.handle(events.TasksChanged(tasks=tasks))

    def _acknowledge(self, name: str, checkpoint_id: int) -> None:
        self.acknowledged.setdefault(checkpoint_id, set()).add(name)
        triggered = [
            message for message in self.harness.effects(TriggerCheckpoint) if message.checkpoint_id == checkpoint_id
        ]
        is_savepoint = any(message.options.snapshot_type is SnapshotType.SAVEPOINT for message in triggered)
        state = snapshot(exclusive=[f"{name} of {checkpoint_id}"]) if is_savepoint else _state_of(name, checkpoint_id)
        self.harness.acknowledge(name, checkpoint_id, state)

    def _write_ends(self, checkpoint_id: int) -> None:
        self.writing.append(checkpoint_id)
        self.harness.written(checkpoint_id)

    def _under_way(self) -> list[int]:
        begun = [effect.checkpoint.checkpoint_id for effect in self.harness.effects(events.WriteMetadata)]
        return [checkpoint_id for checkpoint_id in begun if checkpoint_id not in self.writing]

    def _is_retained(self, checkpoint_id: int) -> bool:
        writes = self.harness.effects(events.WriteMetadata)
        return any(write.is_retained for write in writes if write.checkpoint.checkpoint_id == checkpoint_id)

    def _deletions(self) -> list[events.CoordinatorEffect]:
        return [*self.harness.effects(events.Dispose), *self.harness.effects(events.DeleteJob)]

    def _pending(self) -> list[int]:
        """Return the pending checkpoints that the current tasks know. Ended tasks may leave a checkpoint that is being
        added to the store.
        """
        return [each for each in sorted(self.harness.machine.pending) if each > self.last_of_former_life]

    def _begun_in_this_life(self) -> list[int]:
        return [checkpoint_id for checkpoint_id in self._begun() if checkpoint_id > self.last_of_former_life]

    def _begun(self) -> list[int]:
        started = [timer.message for timer in self.harness.effects(StartTimer)]
        return [message.checkpoint_id for message in started if isinstance(message, CheckpointTimedOut)]


def _state_of(name: str, checkpoint_id: int) -> TaskStateSnapshot:
    """Return the state of a task: the shared batches of its last checkpoints, and one exclusive file of this
    checkpoint.
    """
    batches = range(max(1, checkpoint_id - BATCHES + 1), checkpoint_id + 1)
    return snapshot(shared=[f"{name} batch {number}" for number in batches], exclusive=[f"{name} of {checkpoint_id}"])


TestCoordinating = pytest.mark.slow(Coordinating.TestCase)
TestCoordinating.settings = settings(max_examples=60, stateful_step_count=50)
