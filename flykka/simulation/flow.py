"""Rows on their way through the chain of one simulated attempt: to its sinks, and into its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from flykka.actors.exchange.channel_selectors import channel_selector
from flykka.messages.batch import BatchRef
from flykka.messages.ids import BatchId, OperatorId
from flykka.messages.job_graph import ResultPartitionType, ShipStrategy
from flykka.messages.stage import StageOutput
from flykka.messages.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.simulation.batches import IN_TRANSIT, KEPT
from flykka.simulation.operators import Filter, Map, Sink
from flykka.simulation.rows import Row, Rows, event_times, size_of, split_by_owner
from flykka.simulation.sinks import SinkWriter
from flykka.simulation.world import World


class Flow:
    """The chain of one attempt, and where its outputs lead."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, world: World, sinks: Mapping[OperatorId, SinkWriter]
    ) -> None:
        self._descriptor = descriptor
        self._world = world
        self._sinks = sinks
        self._behaviours = [world.program[operator.ref.uid] for operator in descriptor.vertex.operators]
        self._selectors = {
            output.output: channel_selector(
                output.ship_strategy,
                output.subpartitions,
                first=descriptor.subtask,
                draw=Random(output.partition_id).randrange,
            )
            for output in descriptor.outputs
            if not _is_split(output)
        }

    def apply(self, place: int, rows: Rows, stage: int) -> list[StageOutput]:
        """Let an operator read rows, and take on what it makes of them. Raises `OSError`."""
        match self._behaviours[place]:
            case Map() | Filter() as behaviour:
                return self.move(place, behaviour.apply(rows), stage)
            case Sink():
                if rows:
                    self._sinks[self._operator_id(place)].stage(rows)
                return []
            case behaviour:
                raise AssertionError(f"{behaviour} cannot stand behind another operator")

    def move(self, place: int, rows: Rows, stage: int) -> list[StageOutput]:
        """Take the rows that an operator has made to everything that reads it."""
        vertex, sent = self._descriptor.vertex, list[StageOutput]()
        if not rows:
            return sent
        for output in self._descriptor.outputs:
            if vertex.outputs[output.output] == self._operator_id(place):
                sent += self._send(output, rows, stage)
        for reader, operator in enumerate(vertex.operators):
            if operator.input_operator == place:
                sent += self.apply(reader, rows, stage)
        return sent

    def _send(self, output: ResultPartitionDescriptor, rows: Rows, stage: int) -> list[StageOutput]:
        parts: dict[int, Sequence[Row]]
        if _is_split(output):
            parts = {**split_by_owner(rows, output.max_parallelism, output.subpartitions)}
        else:
            parts = dict.fromkeys(self._selectors[output.output].select_channels(), rows)
        return [self._batch(output, subpartition, tuple(part), stage) for subpartition, part in parts.items()]

    def _batch(self, output: ResultPartitionDescriptor, subpartition: int, rows: Rows, stage: int) -> StageOutput:
        times = event_times(rows)
        attempt = self._descriptor.attempt
        batch = BatchRef(
            batch_id=BatchId(f"{attempt}/{stage}/{output.output}.{subpartition}"),
            rows=len(rows),
            size_bytes=size_of(rows),
            event_time_min=None if times is None else times[0],
            event_time_max=None if times is None else times[1],
            subpartition=subpartition,
        )
        address = (output.partition_id, subpartition)
        holder = KEPT if output.partition_type is ResultPartitionType.BLOCKING else IN_TRANSIT
        self._world.batches.put(
            batch, rows, job_id=self._descriptor.job_id, producer=attempt, address=address, holder=holder
        )
        return StageOutput(output=output.output, batch=batch)

    def _operator_id(self, place: int) -> OperatorId:
        return self._descriptor.vertex.operators[place].operator_id


def _is_split(output: ResultPartitionDescriptor) -> bool:
    return output.ship_strategy is ShipStrategy.HASH and output.subpartitions > 1
