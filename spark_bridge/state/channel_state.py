"""Batches in flight as state: held until they are written, written as files, and batches again after a restore.

`<checkpoint directory>/<job>/in-flight/<attempt>-<checkpoint>-<part>/`, a folder for each input gate and for each
subpartition of an output, with the rows of all batches that an unaligned barrier has overtaken there. It belongs to one
checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.actors.state.in_flight import is_in_flight
from flykka.messages.batch import BatchRef
from flykka.messages.ids import BatchId
from flykka.messages.stage import InputInFlight, StageOutput
from flykka.messages.state import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.spark_bridge.aggregates import WINDOW
from flykka.spark_bridge.batches import Address, Batch
from flykka.spark_bridge.code import KeyByCode, WindowCode
from flykka.spark_bridge.files import read_parquet, write_files
from flykka.spark_bridge.stages.materialise import Materialised, estimated_bytes, materialise, together
from flykka.spark_bridge.stages.partitioning import KeyGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.stage import WriteChannelState
    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.scope import AttemptScope
    from flykka.spark_bridge.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Batches that are in flight again."""

    inputs: tuple[InputInFlight, ...] = ()
    outputs: tuple[StageOutput, ...] = ()


class ChannelState:
    """The channel state of one attempt. `hold` and `let_go` do not block; the rest is work for the threads."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, services: Services, scope: AttemptScope) -> None:
        self._descriptor = descriptor
        self._services = services
        self._scope = scope

    def hold(self, checkpoint_id: int, batch_ids: Iterable[BatchId]) -> None:
        """Keep batches for a checkpoint, whoever else lets go of them.

        Raises:
            UnknownBatchError: one was released.
        """
        for batch_id in batch_ids:
            self._services.store.hold(batch_id, self._holder(checkpoint_id))

    def let_go(self, checkpoint_id: int) -> None:
        """The checkpoint does not need its batches any more."""
        self._services.store.release_held_by(self._holder(checkpoint_id))

    def write(self, command: WriteChannelState) -> OperatorSubtaskState:
        """Make batches durable, as state of the chain's head; one Spark job for each part.

        Raises:
            UnknownBatchError: one was released.
        """
        written: list[str] = []
        try:
            inputs = self._write_inputs(command, written)
            outputs = self._write_outputs(command, written)
        except BaseException:
            for path in written:
                self._services.filesystem.delete(path)
            raise
        folders = [part.in_flight for part in inputs] + [part.in_flight for part in outputs]
        return OperatorSubtaskState(
            operator_id=self._descriptor.vertex.operators[0].operator_id,
            exclusive=tuple(ExclusiveStateHandle(path=rows.path, size_bytes=rows.size_bytes) for rows in folders),
            input_channels=tuple(inputs),
            result_subpartitions=tuple(outputs),
        )

    def recover(self, restore: TaskStateSnapshot | None) -> Recovered:
        """Read what was in flight into batches, which wait for their reader again."""
        states = restore.operators if restore is not None else ()
        parts = [part for state in states for part in state.input_channels]
        inputs = [
            InputInFlight(gate=part.gate, batch=batch)
            for number, part in enumerate(parts)
            if (batch := self._input(number, part)) is not None
        ]
        outputs = [
            StageOutput(output=part.output, batch=self._output(part))
            for part in (part for state in states for part in state.result_subpartitions)
        ]
        return Recovered(inputs=tuple(inputs), outputs=tuple(outputs))

    def _write_inputs(self, command: WriteChannelState, written: list[str]) -> list[InputChannelStateHandle]:
        by_gate: dict[int, list[BatchRef]] = {}
        for entry in command.inputs:
            by_gate.setdefault(entry.gate, []).append(entry.batch)
        return [
            InputChannelStateHandle(
                gate=gate, in_flight=self._write_rows(command.checkpoint_id, f"in-{gate}", batches, written)
            )
            for gate, batches in sorted(by_gate.items())
        ]

    def _write_outputs(self, command: WriteChannelState, written: list[str]) -> list[ResultSubpartitionStateHandle]:
        subpartitions = {output.output: output.subpartitions for output in self._descriptor.outputs}
        by_place: dict[tuple[int, int], list[BatchRef]] = {}
        for entry in command.outputs:
            by_place.setdefault((entry.output, entry.batch.subpartition), []).append(entry.batch)
        return [
            ResultSubpartitionStateHandle(
                output=output,
                subpartition=subpartition,
                subpartitions=subpartitions[output],
                in_flight=self._write_rows(command.checkpoint_id, f"out-{output}-{subpartition}", batches, written),
            )
            for (output, subpartition), batches in sorted(by_place.items())
        ]

    def _write_rows(
        self, checkpoint_id: int, name: str, batches: Sequence[BatchRef], written: list[str]
    ) -> InFlightRows:
        descriptor, filesystem = self._descriptor, self._services.filesystem
        rows = together([self._services.store.rows(batch.batch_id) for batch in batches])
        below = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/in-flight"
        folder = filesystem.qualified(f"{below}/{descriptor.attempt}-{checkpoint_id}-{name}")
        written.append(folder)
        files = write_files(filesystem, rows.coalesce(1), folder)
        return InFlightRows(
            path=folder,
            rows=sum(batch.rows for batch in batches),
            size_bytes=sum(file.size_bytes for file in files),
            event_time_min=min((at for batch in batches if (at := batch.event_time_min) is not None), default=None),
            event_time_max=max((at for batch in batches if (at := batch.event_time_max) is not None), default=None),
        )

    def _output(self, handle: ResultSubpartitionStateHandle) -> BatchRef:
        partition = next(output for output in self._descriptor.outputs if output.output == handle.output)
        address = Address(partition=partition.partition_id, subpartition=handle.subpartition)
        made = self._materialised(self._read(handle.in_flight))
        return self._batch(f"out.{handle.output}.{handle.subpartition}", made, handle.in_flight, address)

    def _input(self, number: int, handle: InputChannelStateHandle) -> BatchRef | None:
        rows = self._read(handle.in_flight)
        if handle.key_groups is not None:
            rows = self._key_groups(handle.gate, rows).within(rows, handle.key_groups)
        made = self._materialised(rows)
        if not made.rows:
            # Of what was for several subtasks there may be nothing for this one.
            made.blocks.free()
            return None
        return self._batch(f"in.{handle.gate}.{number}", made, handle.in_flight)

    def _key_groups(self, gate: int, rows: DataFrame) -> KeyGroups:
        """By what the rows on their way into a keyed gate were partitioned."""
        vertex, registry = self._descriptor.vertex, self._services.registry
        code = registry.resolve(vertex.operators[0].ref)
        if isinstance(code, WindowCode) and WINDOW in rows.columns:
            return KeyGroups(keys=code.plan.keys, max_parallelism=vertex.max_parallelism)
        edge = vertex.inputs[gate]
        assert edge.key_by is not None, f"gate {gate} of {vertex.name!r} has key groups and no keys"
        keyed = registry.resolve(edge.key_by)
        assert isinstance(keyed, KeyByCode), f"{edge.key_by.uid!r} is no key_by"
        return KeyGroups(keys=keyed.columns, max_parallelism=vertex.max_parallelism)

    def _read(self, rows: InFlightRows) -> DataFrame:
        return read_parquet(self._services.session, [rows.path])

    def _materialised(self, rows: DataFrame) -> Materialised:
        return materialise(self._scope, rows, {})

    def _batch(self, name: str, made: Materialised, rows: InFlightRows, address: Address | None = None) -> BatchRef:
        descriptor = self._descriptor
        ref = BatchRef(
            batch_id=BatchId(f"{descriptor.attempt}/recovered/{name}"),
            rows=made.rows,
            size_bytes=estimated_bytes(made.frame.schema, made.rows),
            event_time_min=rows.event_time_min,
            event_time_max=rows.event_time_max,
            subpartition=0 if address is None else address.subpartition,
        )
        batch = Batch(ref=ref, frame=made.frame, address=address)
        self._services.store.put(made.blocks, [batch], producer=descriptor.attempt)
        return ref

    def _holder(self, checkpoint_id: int) -> str:
        return f"{self._descriptor.attempt} checkpoint {checkpoint_id}"


def without_channel_state(restore: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
    """The state of the operators alone."""
    if restore is None:
        return None
    return replace(restore, operators=tuple(state for state in restore.operators if not is_in_flight(state)))
