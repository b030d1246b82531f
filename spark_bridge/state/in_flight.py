"""Batches in flight as files: written for an unaligned checkpoint, and batches again after a restore."""

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
    """Writes and reads the batches in flight of one attempt. Background work."""

    def __init__(self, storage: AttemptStorage, keys_of: Callable[[OperatorRef], tuple[Column | str, ...]]) -> None:
        """`keys_of` returns the keys of an edge."""
        self._descriptor = storage.descriptor
        self._storage = storage
        self._keys_of = keys_of
        self._files = storage.files

    def write(self, parts: tuple[ChannelStatePart, ...]) -> tuple[ExclusiveStateHandle, ...]:
        """Make batches durable, one Spark job for each part. Raises `UnknownBatchError` where one was released."""
        filesystem, store = self._storage.filesystem, self._storage.store
        job = f"{self._descriptor.checkpoint_directory}/{self._descriptor.job_id}"
        written: list[ExclusiveStateHandle] = []
        folder = ""
        try:
            for part in parts:
                folder = filesystem.qualified(part.path)
                batches = [store.rows(batch.batch_id) for batch in part.batches]
                write_checkpoint_files(filesystem, joined(list(slices_of(batches)), 1), folder)
                files = self._files.seal(folder, job)
                size_bytes = sum(file.size_bytes for file in files)
                written.append(ExclusiveStateHandle(path=folder, size_bytes=size_bytes, files=files))
        except BaseException:
            for path in (*(handle.path for handle in written), folder):
                filesystem.delete(path)
            raise
        return tuple(written)

    def read(self, read: ChannelStateRead) -> BatchRef | None:
        """The batch of rows that were in flight; None where none of them is for this subtask."""
        self._files.verify([read.in_flight])
        rows = read_parquet(self._storage.scope.session, [read.in_flight.path])
        if read.key_groups is not None:
            assert read.gate is not None, "only what goes into a gate is cut"
            rows = self._key_groups(read.gate).within(rows, read.key_groups)
        made = materialise(self._storage.scope, rows, {})
        if not made.rows:
            made.blocks.free()
            return None
        ref = recovered_batch(read, made.rows, estimated_bytes(made.frame.schema, made.rows))
        outputs = {output.output: output for output in self._descriptor.outputs}
        goes_to = None if read.output is None else address(outputs[read.output], read.subpartition)
        batch = Batch(ref=ref, rows=made.frame, address=goes_to)
        self._storage.store.put(made.blocks, [batch], producer=self._descriptor.attempt)
        return ref

    def _key_groups(self, gate: int) -> KeyGroups:
        """By what the rows on their way into a keyed gate were partitioned."""
        vertex = self._descriptor.vertex
        edge = vertex.inputs[gate]
        assert edge.key_by is not None, f"gate {gate} of {vertex.name!r} has key groups and no keys"
        return KeyGroups(keys=self._keys_of(edge.key_by), max_parallelism=vertex.max_parallelism)
