"""Stores in-flight batches of unaligned checkpoints as files, and converts these to batches when restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.actors.machines.attempt.batches import address
from flykka.actors.machines.attempt.channel_state import recovered_batch
from flykka.messages.state.handles import ExclusiveStateHandle
from flykka.spark_bridge.rows.batches import Batch, slices_of
from flykka.spark_bridge.rows.files import read_parquet, write_checkpoint_files
from flykka.spark_bridge.rows.materialise import estimated_bytes, joined, materialise
from flykka.spark_bridge.rows.partitioning import KeyGroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from flykka.messages.attempt.commands import ChannelStatePart, ChannelStateRead
    from flykka.messages.graph.job_graph import OperatorRef
    from flykka.messages.tasks.exchange import BatchRef
    from flykka.spark_bridge.state.attempt_storage import AttemptStorage


class InFlightStore:
    """Writes and reads the in-flight batches of one attempt, in the background."""

    def __init__(self, storage: AttemptStorage, keys_of: Callable[[OperatorRef], tuple[Column | str, ...]]) -> None:
        self._descriptor = storage.descriptor
        self._storage = storage
        self._keys_of = keys_of
        self._files = storage.files

    def write(self, parts: tuple[ChannelStatePart, ...]) -> tuple[ExclusiveStateHandle, ...]:
        """Make batches durable, with one Spark job per part. Raises `UnknownBatchError` if a batch was released."""
        filesystem, store = self._storage.filesystem, self._storage.store
        job = f"{self._descriptor.checkpoint_directory}/{self._descriptor.job_id}"
        handles: list[ExclusiveStateHandle] = []
        folder = ""
        try:
            for part in parts:
                folder = filesystem.qualified(part.path)
                batches = [store.rows(batch.batch_id) for batch in part.batches]
                write_checkpoint_files(filesystem, joined(list(slices_of(batches)), 1), folder)
                files = self._files.seal(folder, job)
                size_bytes = sum(file.size_bytes for file in files)
                handles.append(ExclusiveStateHandle(path=folder, size_bytes=size_bytes, files=files))
        except BaseException:
            for path in (*(handle.path for handle in handles), folder):
                filesystem.delete(path)
            raise
        return tuple(handles)

    def read(self, read: ChannelStateRead) -> BatchRef | None:
        """Restore in-flight rows as a batch; None if no row belongs to this subtask."""
        self._files.verify([read.in_flight])
        rows = read_parquet(self._storage.scope.session, [read.in_flight.path])
        if read.key_groups is not None:
            assert read.gate is not None, "the output is read without a gate, so it has no key groups"
            rows = self._key_groups(read.gate).within(rows, read.key_groups)
        materialised = materialise(self._storage.scope, rows, {})
        if not materialised.rows:
            materialised.blocks.free()
            return None
        ref = recovered_batch(read, materialised.rows, estimated_bytes(materialised.frame.schema, materialised.rows))
        outputs = {output.output: output for output in self._descriptor.outputs}
        goes_to = None if read.output is None else address(outputs[read.output], read.subpartition)
        batch = Batch(ref=ref, rows=materialised.frame, address=goes_to)
        self._storage.store.put(materialised.blocks, [batch], producer=self._descriptor.attempt)
        return ref

    def _key_groups(self, gate: int) -> KeyGroups:
        vertex = self._descriptor.vertex
        edge = vertex.inputs[gate]
        assert edge.key_by is not None, f"gate {gate} of {vertex.name!r} has key groups but no keys"
        return KeyGroups(keys=self._keys_of(edge.key_by), max_parallelism=vertex.max_parallelism)
