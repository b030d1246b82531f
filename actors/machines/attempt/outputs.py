"""The outputs of a Task: result partitions, which send batches against credit, and the barriers that wait in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import ResultPartition, partition_not_found
from flykka.messages.attempt.commands import ReleaseBatches, StageOutput
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.messages.tasks.exchange import (
    AddCredit,
    BatchRef,
    CancelPartitionRequest,
    CheckpointBarrier,
    Event,
    PartitionRequest,
    TaskBuffers,
)
from flykka.messages.tasks.task import KeepPartitions, ResultPartitionDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId

ALIGNED_STRATEGIES = frozenset({ShipStrategy.FORWARD, ShipStrategy.RESCALE, ShipStrategy.BROADCAST})
"""The strategies whose in-flight batches, as in Flink, are not part of a checkpoint's state."""


class TaskOutputs:
    __slots__ = ("_barrier_id", "_by_output", "_holding_barrier", "_output_of", "_task")

    def __init__(
        self, task: str, descriptors: Sequence[ResultPartitionDescriptor], buffers: TaskBuffers | None = None
    ) -> None:
        self._task = task
        self._by_output = {
            descriptor.output: ResultPartition(
                descriptor,
                None if buffers is None else buffers.outputs[number],
                bytes_per_buffer=None if buffers is None else buffers.bytes_per_buffer,
            )
            for number, descriptor in enumerate(descriptors)
        }
        self._output_of = {partition.descriptor.partition_id: output for output, partition in self._by_output.items()}
        # The id of the last barrier, and the outputs and subpartitions in which it waits and may time out.
        self._barrier_id = -1
        self._holding_barrier: dict[tuple[int, int], None] = {}

    @property
    def partitions(self) -> Iterable[ResultPartition]:
        return self._by_output.values()

    @property
    def keeps_results(self) -> bool:
        return any(partition.is_blocking for partition in self._by_output.values())

    def keep(self, attempt: ExecutionAttemptId) -> list[TaskEffect]:
        if not self.keeps_results:
            return []
        finished = tuple(partition.finished() for partition in self._by_output.values() if partition.is_blocking)
        return [Tell(to=Role.TASK_MANAGER, message=KeepPartitions(attempt=attempt, partitions=finished))]

    @property
    def holds_barrier(self) -> bool:
        return bool(self._holding_barrier)

    @property
    def is_back_pressured(self) -> bool:
        # This is checked with every event, and most tasks have one output.
        for partition in self._by_output.values():  # noqa: SIM110
            if not partition.is_available:
                return True
        return False

    @property
    def have_credit(self) -> bool:
        return all(partition.has_credit for partition in self._by_output.values())

    def handle(self, event: PartitionRequest | AddCredit | CancelPartitionRequest) -> list[TaskEffect]:
        output = self._output_of.get(event.partition_id)
        if output is None:
            return [_not_here(event)]
        partition = self._by_output[output]
        match event:
            case PartitionRequest(subpartition=subpartition, credit=credit, consumer=consumer):
                effects = partition.request(subpartition, credit, consumer, reconnects=event.reconnects)
            case AddCredit(subpartition=subpartition, credit=credit):
                effects = partition.add_credit(subpartition, credit)
            case CancelPartitionRequest(subpartition=subpartition):
                effects = partition.cancel(subpartition)
        self._record_barrier_left(output, event.subpartition)
        return _effects(effects)

    def resize(self, buffers: TaskBuffers) -> None:
        for partition, size in zip(self._by_output.values(), buffers.outputs, strict=True):
            partition.resize(size)

    @property
    def buffers_in_use(self) -> int:
        return sum(partition.queued_batches for partition in self._by_output.values())

    def misplaced(self, outputs: Iterable[StageOutput]) -> SerializedThrowable | None:
        """Return an error if a batch is for a missing output or subpartition: its rows would be lost."""
        for each in outputs:
            partition = self._by_output.get(each.output)
            number, there = each.batch.subpartition, 0 if partition is None else len(partition.subpartitions)
            if not 0 <= number < there:
                text = (
                    f"{self._task}: {each.batch.batch_id} ({each.batch.rows:,} rows) is for subpartition {number} of"
                    f" output {each.output}, which has {there} subpartitions: its rows would be lost"
                )
                return SerializedThrowable(type_name="IllegalStateError", message=text)
        return None

    def add(self, output: int, batch: BatchRef) -> list[TaskEffect]:
        return _effects(self._by_output[output].add_batch(batch))

    def broadcast(self, event: Event) -> list[TaskEffect]:
        return [effect for partition in self.partitions for effect in _effects(partition.broadcast_event(event))]

    def emit_in_turn(self, event: Event) -> list[TaskEffect]:
        return [effect for partition in self.partitions for effect in _effects(partition.emit_in_turn(event))]

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> tuple[list[TaskEffect], tuple[StageOutput, ...]]:
        """Send a barrier to every consumer. Returns the effects and the batches that the barrier has overtaken.

        In outputs whose batches cannot become state, the barrier overtakes nothing.
        """
        effects: list[TaskEffect] = []
        overtaken: list[StageOutput] = []
        for output, partition in self._by_output.items():
            if partition.descriptor.ship_strategy in ALIGNED_STRATEGIES:
                effects += _effects(partition.broadcast_event(barrier.with_unaligned_unsupported()))
            elif barrier.is_unaligned:
                sent, batches = partition.broadcast_priority_event(barrier)
                effects += _effects(sent)
                overtaken += [StageOutput(output=output, batch=batch) for batch in batches]
            else:
                effects += _effects(partition.broadcast_event(barrier))
        self._record_barrier_waits(barrier)
        return effects, tuple(overtaken)

    def time_out(self, checkpoint_id: int) -> tuple[list[TaskEffect], tuple[StageOutput, ...]]:
        """Let the waiting barrier of the checkpoint overtake batches. Returns the effects and the overtaken batches."""
        if checkpoint_id != self._barrier_id:
            return [], ()
        effects: list[TaskEffect] = []
        overtaken: list[StageOutput] = []
        for output, subpartition in self._holding_barrier:
            sent, batches = self._by_output[output].prioritize_barrier(subpartition, checkpoint_id)
            effects += _effects(sent)
            overtaken += [StageOutput(output=output, batch=batch) for batch in batches]
        self._holding_barrier.clear()
        return effects, tuple(overtaken)

    def check(self) -> None:
        for partition in self._by_output.values():
            partition.check()

    def _record_barrier_waits(self, barrier: CheckpointBarrier) -> None:
        self._barrier_id = barrier.checkpoint_id
        self._holding_barrier.clear()
        if not barrier.may_time_out:
            return
        for output, partition in self._by_output.items():
            if partition.descriptor.ship_strategy not in ALIGNED_STRATEGIES:
                for subpartition in partition.unread_subpartitions:
                    if partition.holds_barrier(subpartition, barrier.checkpoint_id):
                        self._holding_barrier[output, subpartition] = None

    def _record_barrier_left(self, output: int, subpartition: int) -> None:
        is_held = (output, subpartition) in self._holding_barrier
        if is_held and not self._by_output[output].holds_barrier(subpartition, self._barrier_id):
            del self._holding_barrier[output, subpartition]


def _not_here(event: PartitionRequest | AddCredit | CancelPartitionRequest) -> TaskEffect:
    if not isinstance(event, PartitionRequest):
        return Ignore(reason=f"{event.partition_id} is not produced here")
    refusal = partition_not_found(event.partition_id, event.subpartition, "the partition is not here")
    return Tell(to=event.consumer, message=refusal)


def _effects(effects: list[PartitionEffect]) -> list[TaskEffect]:
    return [_effect(effect) for effect in effects]


def _effect(effect: PartitionEffect) -> TaskEffect:
    if isinstance(effect, ReleaseBatch):
        return Tell(to=Role.BRIDGE, message=ReleaseBatches(holder=IN_TRANSIT, batch_ids=(effect.batch.batch_id,)))
    return effect
