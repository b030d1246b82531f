"""The in-flight batches of unaligned checkpoints as state (Flink's ChannelStateWriter).

The inputs are complete when the barriers of all channels have arrived, and the outputs when the task has sent its own
barrier. The engine holds each batch until it is written.

Each input gate, and each subpartition of an output, has a folder `<checkpoint
directory>/<job>/in-flight/<attempt>-<checkpoint>-<part>/` with the rows of all batches that an unaligned barrier has
overtaken there. The folder belongs to one checkpoint only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flykka.actors.machines.attempt.batches import checkpoint_holder
from flykka.actors.machines.attempt.checkpoints import Checkpoint, CheckpointBook, OvertakenBatches
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.state.in_flight import is_in_flight
from flykka.messages.attempt.commands import (
    ChannelStatePart,
    ChannelStateRead,
    HoldBatches,
    InputInFlight,
    ReleaseBatches,
    StageOutput,
    WriteChannelState,
)
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId


class ChannelStateWriter:
    __slots__ = ("_book", "_descriptor")

    def __init__(self, descriptor: TaskDeploymentDescriptor, book: CheckpointBook) -> None:
        self._descriptor = descriptor
        self._book = book

    def start(self, checkpoint_id: int, *, inputs_complete: bool = False) -> None:
        checkpoint = self._book.get(checkpoint_id)
        if checkpoint is not None:
            checkpoint.overtaken = OvertakenBatches(inputs_complete=inputs_complete)

    def add_inputs(self, checkpoint_id: int, inputs: Iterable[InputInFlight]) -> list[TaskEffect]:
        overtaken, entries = self._collecting(checkpoint_id), tuple(inputs)
        if overtaken is None:
            return []
        overtaken.inputs += entries
        return self._hold(checkpoint_id, overtaken, [entry.batch for entry in entries])

    def finish_inputs(self, checkpoint_id: int) -> list[TaskEffect]:
        overtaken = self._collecting(checkpoint_id)
        if overtaken is None:
            return []
        overtaken.inputs_complete = True
        return self._write(checkpoint_id, overtaken)

    def finish_outputs(self, checkpoint_id: int, outputs: Iterable[StageOutput]) -> list[TaskEffect]:
        overtaken = self._collecting(checkpoint_id)
        if overtaken is None:
            return []
        overtaken.outputs += outputs
        overtaken.outputs_complete = True
        hold_effects = self._hold(checkpoint_id, overtaken, [entry.batch for entry in overtaken.outputs])
        return hold_effects + self._write(checkpoint_id, overtaken)

    def on_written(
        self, checkpoint: Checkpoint, parts: Sequence[ChannelStatePart], folders: Sequence[ExclusiveStateHandle]
    ) -> list[TaskEffect]:
        overtaken = checkpoint.overtaken
        assert overtaken is not None, f"the channel state of checkpoint {checkpoint.checkpoint_id} was not collected"
        overtaken.written = channel_state(self._descriptor, parts, folders)
        overtaken.size_bytes = sum(folder.size_bytes for folder in folders)
        return self.release(checkpoint)

    def release(self, checkpoint: Checkpoint | None) -> list[TaskEffect]:
        if checkpoint is None or checkpoint.overtaken is None or not checkpoint.overtaken.is_held:
            return []
        checkpoint.overtaken.is_held = False
        holder = checkpoint_holder(self._descriptor.attempt, checkpoint.checkpoint_id)
        return [Tell(to=Role.BRIDGE, message=ReleaseBatches(holder=holder))]

    def _collecting(self, checkpoint_id: int) -> OvertakenBatches | None:
        checkpoint = self._book.get(checkpoint_id)
        overtaken = None if checkpoint is None else checkpoint.overtaken
        if overtaken is None or (overtaken.inputs_complete and overtaken.outputs_complete):
            return None
        return overtaken

    def _hold(self, checkpoint_id: int, overtaken: OvertakenBatches, batches: list[BatchRef]) -> list[TaskEffect]:
        if not batches:
            return []
        overtaken.is_held = True
        hold = HoldBatches(
            checkpoint_id=checkpoint_id,
            batch_ids=tuple(batch.batch_id for batch in batches),
            holder=checkpoint_holder(self._descriptor.attempt, checkpoint_id),
        )
        return [Tell(to=Role.BRIDGE, message=hold)]

    def _write(self, checkpoint_id: int, overtaken: OvertakenBatches) -> list[TaskEffect]:
        if not (overtaken.inputs_complete and overtaken.outputs_complete):
            return []
        parts = channel_state_parts(self._descriptor, checkpoint_id, overtaken)
        write = WriteChannelState(checkpoint_id=checkpoint_id, parts=parts)
        return self._book.background.add(write, self._book.get(checkpoint_id))


def channel_state_parts(
    descriptor: TaskDeploymentDescriptor, checkpoint_id: int, overtaken: OvertakenBatches
) -> tuple[ChannelStatePart, ...]:
    """Return the folders to write: one for each gate, then one for each subpartition."""
    below = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/in-flight"
    folder = f"{below}/{descriptor.attempt}-{checkpoint_id}"
    gates: dict[int, tuple[BatchRef, ...]] = {}
    for entry in overtaken.inputs:
        gates[entry.gate] = (*gates.get(entry.gate, ()), entry.batch)
    places: dict[tuple[int, int], tuple[BatchRef, ...]] = {}
    for output_entry in overtaken.outputs:
        place = (output_entry.output, output_entry.batch.subpartition)
        places[place] = (*places.get(place, ()), output_entry.batch)
    inputs = (
        ChannelStatePart(path=f"{folder}-in-{gate}", batches=batches, gate=gate)
        for gate, batches in sorted(gates.items())
    )
    outputs = (
        ChannelStatePart(
            path=f"{folder}-out-{output}-{subpartition}", batches=batches, output=output, subpartition=subpartition
        )
        for (output, subpartition), batches in sorted(places.items())
    )
    return (*inputs, *outputs)


def channel_state(
    descriptor: TaskDeploymentDescriptor, parts: Sequence[ChannelStatePart], folders: Sequence[ExclusiveStateHandle]
) -> OperatorSubtaskState:
    """Return the written parts as state of the chain's head operator. `folders` has the same order as `parts`."""
    parts_and_folders = list(zip(parts, folders, strict=True))
    subpartitions = {output.output: output.subpartitions for output in descriptor.outputs}
    return OperatorSubtaskState(
        operator_id=descriptor.vertex.operators[0].operator_id,
        exclusive=tuple(folders),
        input_channels=tuple(
            InputChannelStateHandle(gate=part.gate, in_flight=_rows(part.batches, folder))
            for part, folder in parts_and_folders
            if part.gate is not None
        ),
        result_subpartitions=tuple(
            ResultSubpartitionStateHandle(
                output=part.output,
                subpartition=part.subpartition,
                subpartitions=subpartitions[part.output],
                in_flight=_rows(part.batches, folder),
            )
            for part, folder in parts_and_folders
            if part.output is not None
        ),
    )


def to_recover(descriptor: TaskDeploymentDescriptor) -> tuple[ChannelStateRead, ...]:
    states = () if descriptor.restore is None else descriptor.restore.operators
    inputs = [part for state in states for part in state.input_channels]
    outputs = [handle for state in states for handle in state.result_subpartitions]
    prefix = f"{descriptor.attempt}/recovered"
    return (
        *(
            ChannelStateRead(
                batch_id=BatchId(f"{prefix}/in.{part.gate}.{number}"),
                in_flight=part.in_flight,
                gate=part.gate,
                key_groups=part.key_groups,
            )
            for number, part in enumerate(inputs)
        ),
        *(
            ChannelStateRead(
                batch_id=BatchId(f"{prefix}/out.{handle.output}.{number}"),
                in_flight=handle.in_flight,
                output=handle.output,
                subpartition=handle.subpartition,
            )
            for number, handle in enumerate(outputs)
        ),
    )


def recovered_batch(read: ChannelStateRead, rows: int, size_bytes: int) -> BatchRef:
    return BatchRef(
        batch_id=read.batch_id,
        rows=rows,
        size_bytes=size_bytes,
        event_time_min=read.in_flight.event_time_min,
        event_time_max=read.in_flight.event_time_max,
        subpartition=read.subpartition,
    )


def recovered_inputs(
    reads: Iterable[ChannelStateRead], recovered: Iterable[BatchRef | None]
) -> tuple[InputInFlight, ...]:
    return tuple(
        InputInFlight(gate=read.gate, batch=batch)
        for read, batch in zip(reads, recovered, strict=True)
        if batch is not None and read.gate is not None
    )


def recovered_outputs(
    reads: Iterable[ChannelStateRead], recovered: Iterable[BatchRef | None]
) -> tuple[StageOutput, ...]:
    return tuple(
        StageOutput(output=read.output, batch=batch)
        for read, batch in zip(reads, recovered, strict=True)
        if batch is not None and read.output is not None
    )


def without_channel_state(restore: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
    if restore is None:
        return None
    return replace(restore, operators=tuple(state for state in restore.operators if not is_in_flight(state)))


def _rows(batches: Sequence[BatchRef], folder: ExclusiveStateHandle) -> InFlightRows:
    return InFlightRows(
        path=folder.path,
        rows=sum(batch.rows for batch in batches),
        size_bytes=folder.size_bytes,
        event_time_min=min((at for batch in batches if (at := batch.event_time_min) is not None), default=None),
        event_time_max=max((at for batch in batches if (at := batch.event_time_max) is not None), default=None),
        files=folder.files,
    )
