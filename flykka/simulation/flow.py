"""Rows on their way through the chain of one simulated attempt: to its sinks, and into its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from flykka.actors.machines.attempt.output_routes import OutputRoutes, address, first_holder, is_split
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import StagedOutput
from flykka.messages.tasks.stage import StageOutput
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.operators import Filter, Map, Sink
from flykka.simulation.rows import Row, Rows, event_times, size_of, split_by_owner
from flykka.simulation.sinks import SinkWriter
from flykka.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The outcome of moving rows: batches sent, and rows that sinks have staged."""

    outputs: tuple[StageOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()

    def __add__(self, other: Moved) -> Moved:
        return Moved(outputs=self.outputs + other.outputs, staged=self.staged + other.staged)

    @property
    def rows(self) -> int:
        """The number of rows sent."""
        return sum(output.batch.rows for output in self.outputs)


class Flow:
    """The chain of one attempt, and where its outputs lead."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, world: World, sinks: Mapping[OperatorId, SinkWriter]
    ) -> None:
        self._descriptor = descriptor
        self._batches = world.batches_of(descriptor.job_id)
        self._sinks = sinks
        self._behaviours = [world.program[operator.ref.uid] for operator in descriptor.vertex.operators]
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def apply(self, place: int, rows: Rows, stage: int) -> Moved:
        """Let an operator read rows, and take on what it makes of them. Raises `OSError`."""
        match self._behaviours[place]:
            case Map() | Filter() as behaviour:
                return self.move(place, behaviour.apply(rows), stage)
            case Sink():
                return Moved(staged=(self._sinks[self._operator_id(place)].stage(rows),)) if rows else Moved()
            case behaviour:
                raise AssertionError(f"{behaviour} cannot stand behind another operator")

    def move(self, place: int, rows: Rows, stage: int) -> Moved:
        """Take the rows that an operator has made to everything that reads it."""
        vertex, moved = self._descriptor.vertex, Moved()
        if not rows:
            return moved
        for output in self._descriptor.outputs:
            if vertex.outputs[output.output] == self._operator_id(place):
                moved += self._send(output, rows, stage)
        for reader, operator in enumerate(vertex.operators):
            if operator.input_operator == place:
                moved += self.apply(reader, rows, stage)
        return moved

    def _send(self, output: ResultPartitionDescriptor, rows: Rows, stage: int) -> Moved:
        parts: dict[int, Sequence[Row]]
        if is_split(output):
            parts = {**split_by_owner(rows, output.max_parallelism, output.subpartitions)}
        else:
            parts = dict.fromkeys(self._routes.receivers(output), rows)
        sent = (self._batch(output, subpartition, tuple(part), stage) for subpartition, part in parts.items())
        return Moved(outputs=tuple(sent))

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

    def _operator_id(self, place: int) -> OperatorId:
        return self._descriptor.vertex.operators[place].operator_id
