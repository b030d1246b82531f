"""Rows on their way through the chain of one simulated attempt: to its sinks, and into its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from flykka.actors.machines.attempt.batches import OutputRoutes, address, first_holder, is_split
from flykka.messages.attempt.values import StagedOutput, StageOutput
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.rows import Row, Rows, event_times, size_of, split_by_owner
from flykka.simulation.world import World
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.operator_chain import BatchResult


class Flow:
    """The chain of one attempt, and where its outputs lead."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, world: World, operators: Mapping[OperatorId, Operator[Rows]]
    ) -> None:
        self._descriptor = descriptor
        self._batches = world.batches_of(descriptor.job_id)
        self._operators = operators
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def emit(self, operator_id: OperatorId, output: Output[Rows], stage: int) -> BatchResult:
        """Take what an operator emits to everything that reads it. Raises `OSError`."""
        vertex, result, rows = self._descriptor.vertex, BatchResult(), output.rows
        if output.staged:
            staged = StagedOutput(operator_id=operator_id, names=output.staged, rows=output.staged_rows)
            result += BatchResult(staged=(staged,))
        if not rows:
            return result
        for each in self._descriptor.outputs:
            if vertex.outputs[each.output] == operator_id:
                result += self._send(each, rows, stage)
        for reader in vertex.operators:
            if reader.input_operator is not None and vertex.operators[reader.input_operator].operator_id == operator_id:
                processed = self._operators[reader.operator_id].process_batch(Element(rows=rows, stage=stage))
                result += self.emit(reader.operator_id, processed, stage)
        return result

    def _send(self, output: ResultPartitionDescriptor, rows: Rows, stage: int) -> BatchResult:
        parts: dict[int, Sequence[Row]]
        if is_split(output):
            parts = {**split_by_owner(rows, output.max_parallelism, output.subpartitions)}
        else:
            parts = dict.fromkeys(self._routes.receivers(output), rows)
        sent = (self._batch(output, subpartition, tuple(part), stage) for subpartition, part in parts.items())
        outputs = tuple(sent)
        return BatchResult(outputs=outputs, rows=sum(each.batch.rows for each in outputs))

    def _batch(self, output: ResultPartitionDescriptor, subpartition: int, rows: Rows, stage: int) -> StageOutput:
        times = event_times(rows)
        batch = BatchRef(
            batch_id=self._routes.batch_id(stage, output, subpartition),
            rows=len(rows),
            size_bytes=size_of(rows),
            event_time_min=None if times is None else times[0],
            event_time_max=None if times is None else times[1],
            subpartition=subpartition,
        )
        goes_to, holder = address(output, subpartition), first_holder(output)
        self._batches.put(batch, rows, producer=self._descriptor.attempt, address=goes_to, holder=holder)
        return StageOutput(output=output.output, batch=batch)
