"""Batches in flight as state of a simulated attempt: held, written, and batches again after a restore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flykka.messages.batch import BatchRef
from flykka.messages.ids import BatchId
from flykka.messages.stage import BridgeOpened, InputInFlight, StageOutput, WriteChannelState
from flykka.messages.state import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    KeyGroupRange,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
)
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.simulation.batches import Address
from flykka.simulation.rows import Rows, event_times, size_of, within
from flykka.simulation.world import World


class SimulatedChannels:
    """The channel state of one attempt."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self._descriptor = descriptor
        self._world = world

    def hold(self, checkpoint_id: int, batch_ids: Iterable[BatchId]) -> bool:
        """Keep batches for a checkpoint, whoever else lets go of them; whether all are still there."""
        holder = self._holder(checkpoint_id)
        return all(self._world.batches.hold(batch_id, holder) for batch_id in batch_ids)

    def let_go(self, checkpoint_id: int) -> None:
        """The checkpoint needs its batches no more."""
        self._world.batches.release_held_by(self._holder(checkpoint_id))

    def write(self, command: WriteChannelState) -> OperatorSubtaskState:
        """Make batches durable, a file for each gate and each subpartition. Raises `OSError`, `BatchReleasedError`."""
        by_gate: dict[int, list[BatchRef]] = {}
        for entry in command.inputs:
            by_gate.setdefault(entry.gate, []).append(entry.batch)
        by_place: dict[tuple[int, int], list[BatchRef]] = {}
        for output in command.outputs:
            by_place.setdefault((output.output, output.batch.subpartition), []).append(output.batch)
        written: list[InFlightRows] = []
        try:
            inputs = tuple(
                InputChannelStateHandle(
                    gate=gate, in_flight=self._write(command.checkpoint_id, f"in-{gate}", batches, written)
                )
                for gate, batches in sorted(by_gate.items())
            )
            outputs = tuple(
                ResultSubpartitionStateHandle(
                    output=number,
                    subpartition=subpartition,
                    subpartitions=self._descriptor.outputs[number].subpartitions,
                    in_flight=self._write(command.checkpoint_id, f"out-{number}-{subpartition}", batches, written),
                )
                for (number, subpartition), batches in sorted(by_place.items())
            )
        except (OSError, LookupError):
            for rows in written:
                self._world.storage.files.pop(self._world.path(rows.path), None)
            raise
        return OperatorSubtaskState(
            operator_id=self._descriptor.vertex.operators[0].operator_id,
            exclusive=tuple(ExclusiveStateHandle(path=rows.path, size_bytes=rows.size_bytes) for rows in written),
            input_channels=inputs,
            result_subpartitions=outputs,
        )

    def recover(self, states: Sequence[OperatorSubtaskState]) -> BridgeOpened:
        """What was in flight, in batches again. Raises `FileNotFoundError`."""
        inputs: list[InputInFlight] = []
        outputs: list[StageOutput] = []
        for number, part in enumerate(part for state in states for part in state.input_channels):
            batch = self._recovered(f"in.{part.gate}.{number}", part.in_flight, part.key_groups)
            if batch is not None:
                inputs.append(InputInFlight(gate=part.gate, batch=batch))
        for number, left in enumerate(left for state in states for left in state.result_subpartitions):
            address = (self._descriptor.outputs[left.output].partition_id, left.subpartition)
            batch = self._recovered(f"out.{left.output}.{number}", left.in_flight, None, address)
            if batch is not None:
                outputs.append(StageOutput(output=left.output, batch=batch))
        return BridgeOpened(recovered_inputs=tuple(inputs), recovered_outputs=tuple(outputs))

    def _write(
        self, checkpoint_id: int, name: str, batches: Sequence[BatchRef], written: list[InFlightRows]
    ) -> InFlightRows:
        descriptor = self._descriptor
        # Where a reader was faster than the hold, one is gone: the checkpoint is declined for it.
        rows = tuple(row for batch in batches for row in self._world.batches.rows(batch.batch_id))
        below = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/in-flight"
        path = f"{below}/{descriptor.attempt}-{checkpoint_id}-{name}"
        self._world.storage.write(self._world.path(path), rows)
        times = event_times(rows)
        made = InFlightRows(
            path=path,
            rows=len(rows),
            size_bytes=size_of(rows),
            event_time_min=None if times is None else times[0],
            event_time_max=None if times is None else times[1],
        )
        written.append(made)
        return made

    def _recovered(
        self, name: str, in_flight: InFlightRows, key_groups: KeyGroupRange | None, address: Address | None = None
    ) -> BatchRef | None:
        descriptor, world = self._descriptor, self._world
        rows: Rows = world.storage.read_rows(world.path(in_flight.path))
        if key_groups is not None:
            rows = within(rows, key_groups, descriptor.vertex.max_parallelism)
        if not rows:
            return None
        times = event_times(rows)
        batch = BatchRef(
            batch_id=BatchId(f"{descriptor.attempt}/recovered/{name}"),
            rows=len(rows),
            size_bytes=size_of(rows),
            event_time_min=None if times is None else times[0],
            event_time_max=None if times is None else times[1],
            subpartition=0 if address is None else address[1],
        )
        world.batches.put(batch, rows, job_id=descriptor.job_id, producer=descriptor.attempt, address=address)
        return batch

    def _holder(self, checkpoint_id: int) -> str:
        return f"{self._descriptor.attempt} checkpoint {checkpoint_id}"
