"""Bugs planted in the real state machines, each in one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flykka.actors.job_master.actor import JobMaster
from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.attempt.batches import IN_TRANSIT, BatchHolders
from flykka.actors.machines.attempt.checkpoints import Checkpoint, CheckpointBook, CheckpointPhase
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.outputs import TaskOutputs
from flykka.actors.machines.attempt.source import SplitReader
from flykka.actors.machines.attempt.stages import TaskMeter
from flykka.actors.machines.attempt.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flykka.actors.machines.checkpoint.completed_store import SharedStateRegistry
from flykka.actors.machines.checkpoint.coordinator import CheckpointCoordinatorMachine
from flykka.actors.machines.checkpoint.events import CoordinatorEffect
from flykka.actors.machines.checkpoint.pending import PendingCheckpoint, PlannedTask, TaskAcknowledgeResult
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.exchange.credits import ChannelCredits
from flykka.actors.task.bridge import Bridge
from flykka.messages.attempt.answers import CheckpointCommitted, CommitPrepared, SnapshotWritten, StageResult
from flykka.messages.attempt.commands import Command, CommitCheckpoint, ProcessBatch, ReleaseBatches, SnapshotState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.exchange import EndOfPartition, Event
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.ref import Ref
from flykka.runtime.leader_session import LeaderSessions
from flykka.simulation.scenario import Scenario
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.spark_bridge.operators.keyed_process import DueTimers
from flykka.spark_bridge.operators.operator_chain import OperatorChain
from tests.flykka.simulation.input_bugs import (
    a_barrier_does_not_block_its_channel,
    a_join_drops_rows_too_early,
    a_restored_join_lacks_its_right_side,
    a_restored_task_has_no_watermark,
    a_snapshot_does_not_wait_for_the_last_channel,
    an_aligned_source_ignores_its_limit,
    in_flight_data_of_other_inputs_is_lost,
    the_watermark_is_the_maximum_of_the_inputs,
    unmatched_rows_are_emitted_repeatedly,
)

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug, the monitor that reports it first, and a part of the report.

    The search starts at the seed `begin`, which shortens the search; `settings` may contain the faults that expose the
    bug soonest.
    """

    plant: Plant
    monitor: str
    says: str
    settings: SimulationSettings = field(default_factory=SimulationSettings)
    begin: int = 0

    def __str__(self) -> str:
        return self.plant.__name__

    def scenarios(self, count: int) -> Iterator[Scenario]:
        return (draw_scenario(seed, self.settings) for seed in range(self.begin, self.begin + count))


def an_acknowledgement_counts_twice(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements are counted without regard to their senders."""
    expects, acknowledge = PendingCheckpoint.expects, PendingCheckpoint.acknowledge

    def count(self: PendingCheckpoint, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
        expected = expects(self, attempt)
        counts = expected is TaskAcknowledgeResult.DUPLICATE and bool(self.awaited)
        return TaskAcknowledgeResult.SUCCESS if counts else expected

    def strike_off(
        self: PendingCheckpoint, attempt: ExecutionAttemptId, state: TaskStateSnapshot | None
    ) -> PlannedTask:
        return acknowledge(self, attempt if attempt in self.awaited else min(self.awaited), state)

    patch.setattr(PendingCheckpoint, "expects", count)
    patch.setattr(PendingCheckpoint, "acknowledge", strike_off)


def output_is_committed_before_completion(patch: pytest.MonkeyPatch) -> None:
    """A task publishes as soon as its own state is durable."""
    on_written = SubtaskCheckpointCoordinator.on_written

    def eager(self: SubtaskCheckpointCoordinator, written: SnapshotWritten) -> list[TaskEffect]:
        effects = on_written(self, written)
        return [*effects, Tell(to=Role.BRIDGE, message=CommitCheckpoint(checkpoint_id=written.checkpoint_id))]

    patch.setattr(SubtaskCheckpointCoordinator, "on_written", eager)


def a_batch_is_released_before_it_is_read(patch: pytest.MonkeyPatch) -> None:
    """A task releases a batch when its stage starts, not when the stage has ended."""
    read = StreamTask._read_input

    def hasty(self: StreamTask, now: int, *, has_room: bool) -> list[TaskEffect] | None:
        effects = read(self, now, has_room=has_room)
        match effects:
            case [Tell(to=Role.BRIDGE, message=ProcessBatch(batch=batch)), *_]:
                return [
                    Tell(to=Role.BRIDGE, message=ReleaseBatches(holder=IN_TRANSIT, batch_ids=(batch.batch_id,))),
                    *effects,
                ]
        return effects

    patch.setattr(StreamTask, "_read_input", hasty)


def state_of_an_aborted_checkpoint_is_not_deleted(patch: pytest.MonkeyPatch) -> None:
    def keep(_self: CheckpointCoordinatorMachine, _pending: PendingCheckpoint) -> Iterator[CoordinatorEffect]:
        return iter(())

    patch.setattr(CheckpointCoordinatorMachine, "_discard", keep)


def the_end_of_a_partition_is_lost(patch: pytest.MonkeyPatch) -> None:
    """The last consumer receives no end of partition."""
    broadcast = TaskOutputs.broadcast

    def all_but_one(self: TaskOutputs, event: Event) -> list[TaskEffect]:
        effects = broadcast(self, event)
        return effects[:-1] if isinstance(event, EndOfPartition) else effects

    patch.setattr(TaskOutputs, "broadcast", all_but_one)


def a_restored_reader_skips_a_split(patch: pytest.MonkeyPatch) -> None:
    """The first split that a checkpoint recorded as unread counts as read."""
    restore = SplitReader.restore

    def skip(self: SplitReader, states: Iterable[OperatorSubtaskState]) -> None:
        restore(self, states)
        self.next()

    patch.setattr(SplitReader, "restore", skip)


def credit_is_announced_twice(patch: pytest.MonkeyPatch) -> None:
    """A consumer announces each free buffer twice."""
    take_announcement = ChannelCredits.take_announcement

    def doubled(self: ChannelCredits) -> int:
        return 2 * take_announcement(self)

    patch.setattr(ChannelCredits, "take_announcement", doubled)


def shared_state_is_deleted_with_its_first_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """State that several checkpoints share is counted as if only one checkpoint referred to it."""
    register = SharedStateRegistry.register

    def once(self: SharedStateRegistry, state_ids: Iterable[str]) -> None:
        register(self, [state_id for state_id in state_ids if not self.references(state_id)])

    def forgiving(self: SharedStateRegistry, state_ids: Iterable[str]) -> None:
        unregister(self, [state_id for state_id in state_ids if self.references(state_id)])

    unregister = SharedStateRegistry.unregister
    patch.setattr(SharedStateRegistry, "register", once)
    patch.setattr(SharedStateRegistry, "unregister", forgiving)


def ended_sessions_are_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderSessions, "unwrap", lambda _self, _cell, message, _envelope: message.message)


def a_job_master_ignores_the_end_of_its_coordinator(patch: pytest.MonkeyPatch) -> None:
    def go_on(_self: JobMaster, _child: Ref) -> None: ...

    patch.setattr(JobMaster, "_end_with", go_on)


def a_snapshot_contains_already_fired_windows(patch: pytest.MonkeyPatch) -> None:
    """A snapshot contains windows whose results were emitted before its barrier."""
    snapshot_state: Any = OperatorChain.snapshot_state

    def too_early(self: OperatorChain[Any], command: SnapshotState) -> StageResult:
        noted: StageResult = snapshot_state(self, replace(command, watermark_ms=None))
        if command.watermark_ms is None:
            return noted
        outputs = self._completed(command.watermark_ms, 0)
        if not self.descriptor.outputs:
            self._deferred[command.checkpoint_id] = command.stage, outputs
            return noted
        return self.result(command.stage, self._emitted(outputs, command.stage))

    patch.setattr(OperatorChain, "snapshot_state", too_early)


def output_staged_before_a_barrier_is_not_in_its_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint completes without the output of the rows before it."""
    on_barrier_sent = CheckpointBook.on_barrier_sent

    def one_late(self: CheckpointBook, checkpoint: Checkpoint) -> None:
        staged, self._staged = self._staged, ()
        on_barrier_sent(self, checkpoint)
        self._staged = staged

    patch.setattr(CheckpointBook, "on_barrier_sent", one_late)


def a_finished_attempt_releases_its_sent_batches(patch: pytest.MonkeyPatch) -> None:
    """The batches of an attempt are released with it, even if it has finished."""
    release_attempt: Any = BatchHolders.release_attempt

    def all_of_it(self: object, attempt: object, addresses: object, *, is_cancelled: bool) -> object:
        return release_attempt(self, attempt, addresses, is_cancelled=True)

    patch.setattr(BatchHolders, "release_attempt", all_of_it)


def a_commit_is_reported_before_it_is_done(patch: pytest.MonkeyPatch) -> None:
    begin = Bridge._begin

    def hasty(self: Bridge, command: Command) -> None:
        if isinstance(command, CommitCheckpoint):
            self.context.parent.tell(CheckpointCommitted(checkpoint_id=command.checkpoint_id))
        else:
            begin(self, command)

    patch.setattr(Bridge, "_begin", hasty)


def output_of_an_aborted_checkpoint_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Output staged for an aborted checkpoint is not committed with a later one."""
    abort, on_prepared = CheckpointBook.abort, CheckpointBook.on_prepared

    def forgetful(self: CheckpointBook, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
        late = abort(self, checkpoint_id)
        forget(self._records.get(checkpoint_id))
        return late

    def prepared_for_nothing(self: CheckpointBook, checkpoint: Checkpoint, prepared: CommitPrepared) -> None:
        on_prepared(self, checkpoint, prepared)
        forget(checkpoint)

    def forget(checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None and checkpoint.phase is CheckpointPhase.ABORTED:
            checkpoint.has_output = checkpoint.awaits_commit = False

    patch.setattr(CheckpointBook, "abort", forgetful)
    patch.setattr(CheckpointBook, "on_prepared", prepared_for_nothing)


STAGES_FAIL = SimulationSettings(faults=frozenset({FaultKind.STAGE}), max_faults=10)

DOUBLED = SimulationSettings(faults=frozenset({FaultKind.DUPLICATE}), max_faults=8)
CUT_OFF = SimulationSettings(faults=frozenset({FaultKind.CUT, FaultKind.CRASH}), max_faults=8)
MASTERS_DIE = SimulationSettings(faults=frozenset({FaultKind.MASTER}), max_faults=4)


def rows_are_counted_as_published_twice(patch: pytest.MonkeyPatch) -> None:
    """Rows that a commit has published are counted again."""
    count = TaskMeter.count_published
    patch.setattr(TaskMeter, "count_published", lambda meter, rows: count(meter, 2 * rows))


def timers_set_while_others_fire_are_lost(patch: pytest.MonkeyPatch) -> None:
    """All timers up to the next version count as fired."""
    noted = DueTimers.on_fired

    def one_too_far(timers: DueTimers, to_ms: int, version: int, next_ms: int | None) -> None:
        noted(timers, to_ms, version + 2, next_ms)

    patch.setattr(DueTimers, "on_fired", one_too_far)


PLANTED_BUGS = (
    PlantedBug(plant=the_watermark_is_the_maximum_of_the_inputs, monitor="watermarks", says=" has reached "),
    PlantedBug(plant=an_aligned_source_ignores_its_limit, monitor="watermarks", says="the source reads at watermark"),
    PlantedBug(plant=a_restored_task_has_no_watermark, monitor="watermarks", says="although all channels had reached"),
    PlantedBug(
        plant=a_snapshot_does_not_wait_for_the_last_channel,
        monitor="barriers",
        says="before its barrier has arrived in",
        begin=4,
    ),
    PlantedBug(
        plant=in_flight_data_of_other_inputs_is_lost,
        monitor="barriers",
        says="was in flight, but is neither in the state nor in the channel state",
    ),
    PlantedBug(plant=a_join_drops_rows_too_early, monitor="output", says=" lacks ", begin=19),
    PlantedBug(
        plant=a_restored_join_lacks_its_right_side,
        monitor="output",
        says=" lacks ",
        settings=STAGES_FAIL,
    ),
    PlantedBug(plant=unmatched_rows_are_emitted_repeatedly, monitor="output", says="rows too many", begin=53),
    PlantedBug(plant=timers_set_while_others_fire_are_lost, monitor="output", says=" lacks ", begin=12),
    PlantedBug(plant=rows_are_counted_as_published_twice, monitor="output", says="rows were reported as published"),
    PlantedBug(
        plant=an_acknowledgement_counts_twice,
        monitor="checkpoints",
        says="completes without the acknowledgement of",
        settings=DOUBLED,
    ),
    PlantedBug(
        plant=output_is_committed_before_completion,
        monitor="commits",
        says="is published before it was reported as complete",
    ),
    PlantedBug(plant=a_batch_is_released_before_it_is_read, monitor="batches", says="is read, but was released in"),
    PlantedBug(
        plant=state_of_an_aborted_checkpoint_is_not_deleted,
        monitor="storage",
        says="/in-flight/",
        begin=328,
    ),
    PlantedBug(
        plant=the_end_of_a_partition_is_lost,
        monitor="exchange",
        says="finishes, but the end of subpartition",
    ),
    PlantedBug(plant=credit_is_announced_twice, monitor="failures", says="CreditOverrunError"),
    PlantedBug(
        plant=a_restored_reader_skips_a_split,
        monitor="output",
        says=" lacks ",
        settings=STAGES_FAIL,
        begin=9,
    ),
    PlantedBug(
        plant=a_barrier_does_not_block_its_channel,
        monitor="barriers",
        says="was read before the snapshot",
    ),
    PlantedBug(
        plant=shared_state_is_deleted_with_its_first_checkpoint,
        monitor="storage",
        says="cannot be restored",
        begin=926,
    ),
    PlantedBug(
        plant=ended_sessions_are_accepted,
        monitor="sessions",
        says=", which has ended",
        settings=CUT_OFF,
    ),
    PlantedBug(
        plant=a_job_master_ignores_the_end_of_its_coordinator,
        monitor="progress",
        says="has not ended",
        settings=MASTERS_DIE,
    ),
    PlantedBug(
        plant=a_snapshot_contains_already_fired_windows,
        monitor="output",
        says="rows too many",
        settings=STAGES_FAIL,
        begin=13,
    ),
    PlantedBug(
        plant=output_staged_before_a_barrier_is_not_in_its_checkpoint,
        monitor="output",
        says=" lacks ",
    ),
    PlantedBug(
        plant=a_finished_attempt_releases_its_sent_batches,
        monitor="data-plane",
        says="all its holders have released it",
        begin=14,
    ),
    PlantedBug(plant=a_commit_is_reported_before_it_is_done, monitor="output", says=" lacks "),
    PlantedBug(
        plant=output_of_an_aborted_checkpoint_is_lost,
        monitor="output",
        says=" lacks ",
        begin=44,
    ),
)
