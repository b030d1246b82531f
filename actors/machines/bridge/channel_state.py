"""Batches in flight as state: how they lie in a checkpoint, and which batches they are again after a restore.

`<checkpoint directory>/<job>/in-flight/<attempt>-<checkpoint>-<part>/`, a folder for each input gate and for each
subpartition of an output, with the rows of all batches that an unaligned barrier has overtaken there. It belongs to one
checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flykka.actors.machines.state.in_flight import is_in_flight
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import InFlightPart, InFlightRead
from flykka.messages.tasks.stage import BridgeOpened, InputInFlight, StageOutput, WriteChannelState
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId


def parts_to_write(descriptor: TaskDeploymentDescriptor, command: WriteChannelState) -> tuple[InFlightPart, ...]:
    """The parts to write, a folder for each gate, and behind these for each subpartition."""
    below = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/in-flight"
    folder = f"{below}/{descriptor.attempt}-{command.checkpoint_id}"
    inputs = [InFlightPart(path=f"{folder}-in-{gate}", batches=batches) for gate, batches in _by_gate(command)]
    outputs = [
        InFlightPart(path=f"{folder}-out-{output}-{subpartition}", batches=batches)
        for (output, subpartition), batches in _by_subpartition(command)
    ]
    return (*inputs, *outputs)


def channel_state(
    descriptor: TaskDeploymentDescriptor, command: WriteChannelState, folders: Sequence[ExclusiveStateHandle]
) -> OperatorSubtaskState:
    """The written parts as state of the chain's head; `folders` are those of `parts_to_write`, in its order."""
    gates, places = _by_gate(command), _by_subpartition(command)
    subpartitions = {output.output: output.subpartitions for output in descriptor.outputs}
    return OperatorSubtaskState(
        operator_id=descriptor.vertex.operators[0].operator_id,
        exclusive=tuple(folders),
        input_channels=tuple(
            InputChannelStateHandle(gate=gate, in_flight=_rows(batches, folder))
            for (gate, batches), folder in zip(gates, folders[: len(gates)], strict=True)
        ),
        result_subpartitions=tuple(
            ResultSubpartitionStateHandle(
                output=output,
                subpartition=subpartition,
                subpartitions=subpartitions[output],
                in_flight=_rows(batches, folder),
            )
            for ((output, subpartition), batches), folder in zip(places, folders[len(gates) :], strict=True)
        ),
    )


def to_recover(descriptor: TaskDeploymentDescriptor, restore: TaskStateSnapshot | None) -> tuple[InFlightRead, ...]:
    """The batches that are in flight again, first those of the gates."""
    states = () if restore is None else restore.operators
    inputs = [part for state in states for part in state.input_channels]
    outputs = [left for state in states for left in state.result_subpartitions]
    named = f"{descriptor.attempt}/recovered"
    return (
        *(
            InFlightRead(
                batch_id=BatchId(f"{named}/in.{part.gate}.{number}"),
                in_flight=part.in_flight,
                gate=part.gate,
                key_groups=part.key_groups,
            )
            for number, part in enumerate(inputs)
        ),
        *(
            InFlightRead(
                batch_id=BatchId(f"{named}/out.{left.output}.{number}"),
                in_flight=left.in_flight,
                output=left.output,
                subpartition=left.subpartition,
            )
            for number, left in enumerate(outputs)
        ),
    )


def recovered_batch(read: InFlightRead, rows: int, size_bytes: int) -> BatchRef:
    """The batch that rows in flight have become again."""
    return BatchRef(
        batch_id=read.batch_id,
        rows=rows,
        size_bytes=size_bytes,
        event_time_min=read.in_flight.event_time_min,
        event_time_max=read.in_flight.event_time_max,
        subpartition=read.subpartition,
    )


def bridge_opened(reads: Iterable[InFlightRead], recovered: Iterable[BatchRef | None]) -> BridgeOpened:
    """The batches in flight again, for the Task; of a part for several subtasks there may be nothing for this one."""
    made = [(read, batch) for read, batch in zip(reads, recovered, strict=True) if batch is not None]
    return BridgeOpened(
        recovered_inputs=tuple(
            InputInFlight(gate=read.gate, batch=batch) for read, batch in made if read.gate is not None
        ),
        recovered_outputs=tuple(
            StageOutput(output=read.output, batch=batch) for read, batch in made if read.output is not None
        ),
    )


def without_channel_state(restore: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
    """The state of the operators alone."""
    if restore is None:
        return None
    return replace(restore, operators=tuple(state for state in restore.operators if not is_in_flight(state)))


def _by_gate(command: WriteChannelState) -> list[tuple[int, tuple[BatchRef, ...]]]:
    by_gate: dict[int, tuple[BatchRef, ...]] = {}
    for entry in command.inputs:
        by_gate[entry.gate] = (*by_gate.get(entry.gate, ()), entry.batch)
    return sorted(by_gate.items())


def _by_subpartition(command: WriteChannelState) -> list[tuple[tuple[int, int], tuple[BatchRef, ...]]]:
    by_place: dict[tuple[int, int], tuple[BatchRef, ...]] = {}
    for entry in command.outputs:
        place = (entry.output, entry.batch.subpartition)
        by_place[place] = (*by_place.get(place, ()), entry.batch)
    return sorted(by_place.items())


def _rows(batches: Iterable[BatchRef], folder: ExclusiveStateHandle) -> InFlightRows:
    batches = tuple(batches)
    return InFlightRows(
        path=folder.path,
        rows=sum(batch.rows for batch in batches),
        size_bytes=folder.size_bytes,
        event_time_min=min((at for batch in batches if (at := batch.event_time_min) is not None), default=None),
        event_time_max=max((at for batch in batches if (at := batch.event_time_max) is not None), default=None),
        files=folder.files,
    )
