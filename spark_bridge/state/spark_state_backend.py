"""Keyed state with Spark: rows of segments are batches in the store, and parquet folders in checkpoint storage.

The rows of a segment are a batch, which was received or computed by the attempt and is held as long as the state needs
it. A snapshot writes one folder, `<checkpoint directory>/<job>/shared/<state id>/`, to which later checkpoints refer as
long as one of its segments is live. Rows that are no longer needed are not written.

A segment is stored in the executors' memory if the attempt's managed memory has room for it, else on their disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import columns_of, quoted
from flykka.actors.machines.state.segments import Reading, Segment, Unwritten
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.program.stored_columns import evolved_columns, stored_values
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.files import read_parquet, write_checkpoint_files
from flykka.spark_bridge.rows.materialise import estimated_bytes, materialise, together
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.state.attempt_storage import AttemptStorage, StoredState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from flykka.actors.machines.state.keyed_state import StatePart
    from flykka.messages.state.handles import KeyGroupRange, StateSchema
    from flykka.spark_bridge.program.aggregates import StatePlan

_ROWS_OF_ONE_CORE = 1_000_000
"""Maximum number of state rows that one core merges faster than several cores after a shuffle."""

_ROWS_PER_FILE = 1_000_000


class StateLayout:
    """The columns of one state as its plan stores them, with times if the state is divided by event time."""

    def __init__(self, plan: StatePlan) -> None:
        self.plan = plan

    def times(self) -> Mapping[str, Column]:
        """Return the aggregates `first_micros` and `last_micros` over state; empty if event time does not divide it."""
        return {}

    def between(self, state: DataFrame, from_ms: int | None, until_ms: int | None) -> DataFrame:
        """Return the rows with times from `from_ms` to before `until_ms`. A None bound is open."""
        return state

    def later(self, state: DataFrame, closed_to_ms: int | None) -> DataFrame:
        """Return the rows that results after `closed_to_ms` need."""
        return state


class SparkStateBackend(StoredState["DataFrame"]):
    merge_at = 16

    def __init__(self, layout: StateLayout, storage: AttemptStorage, name: str = "") -> None:
        """`name` is the name of the state if the operator has several states."""
        super().__init__(storage)
        self._layout = layout
        self._files = storage.files
        self._memory = storage.memory
        self._segments = 0
        self._last_bytes = 0
        self._name = name
        # Cached, because Spark infers columns with a separate job, which takes longer than reading small state.
        self._schemas: dict[StateSchema | None, StructType] = {}

    @cached_property
    def _groups(self) -> KeyGroups:
        # Created lazily: columns are created in the JVM, but operators are created in an actor's turn.
        return KeyGroups(keys=self._layout.plan.keys, max_parallelism=self._descriptor.vertex.max_parallelism)

    def keep(self, rows: DataFrame) -> Segment[DataFrame] | None:
        """Compute state with one Spark job.

        A batch that turns out too large for the memory is written to disk by a second job, and the next batch is then
        written to disk directly.
        """
        times, memory = self._layout.times(), self._memory
        on_disk = not memory.has_room_for(self._last_bytes)
        materialised = materialise(self._scope, rows, times, on_disk=on_disk)
        if not materialised.rows:
            materialised.blocks.free()
            return None
        with self._lock:
            self._segments += 1
            batch_id = BatchId(f"{self.attempt}/{self._name or 'state'}.{self._segments}")
        self._last_bytes = estimated_bytes(materialised.frame.schema, materialised.rows)
        if not on_disk and not memory.reserve(batch_id, self._last_bytes):
            in_memory, on_disk = materialised, True
            materialised = materialise(self._scope, in_memory.frame, times, on_disk=True)
            in_memory.blocks.free()
        ref = BatchRef(batch_id=batch_id, rows=materialised.rows, size_bytes=self._last_bytes)
        batch = Batch(ref=ref, rows=materialised.frame, holder=self._holder, on_disk=on_disk)
        self._store.put(materialised.blocks, [batch], producer=self._descriptor.attempt)
        first, last = (_in_ms(materialised.numbers.get(name)) for name in ("first_micros", "last_micros"))
        return Segment(
            batch_id=batch_id, frame=materialised.frame, rows=materialised.rows, first_ms=first, last_ms=last
        )

    def adopt(self, ref: BatchRef, state: DataFrame, first_ms: int = 0, last_ms: int = 0) -> Segment[DataFrame]:
        """Return a segment of an existing batch, or of a copy on disk if it does not fit into the memory."""
        if not self._memory.reserve(ref.batch_id, ref.size_bytes):
            self._last_bytes = ref.size_bytes
            copied = self.keep(state)
            if copied is not None:
                return replace(copied, first_ms=first_ms, last_ms=last_ms)
        self._store.hold((ref.batch_id,), self._holder)
        return Segment(batch_id=ref.batch_id, frame=state, rows=ref.rows, first_ms=first_ms, last_ms=last_ms)

    def read(self, readings: Sequence[Reading[DataFrame]]) -> DataFrame:
        return gathered(self.bounded(readings), readings)

    def bounded(self, readings: Sequence[Reading[DataFrame]]) -> DataFrame:
        """Return the rows of segments within their bounds, with any partitioning."""
        between = self._layout.between
        return together([between(reading.segment.frame, reading.from_ms, reading.until_ms) for reading in readings])

    def merge(self, rows: DataFrame, *, are_oldest: bool) -> DataFrame:
        return self._layout.plan.merge(rows)

    def load(self, part: StatePart) -> DataFrame:
        self._files.verify(handle for handle, _ in part.handles)
        wanted: dict[KeyGroupRange | None, list[str]] = {}
        for handle, key_groups in part.handles:
            wanted.setdefault(key_groups, []).append(handle.path)
        rows = together([self._loaded(paths, key_groups, part.written_as) for key_groups, paths in wanted.items()])
        return self._layout.later(rows, part.bounds.closed_to_ms)

    def _loaded(self, paths: list[str], key_groups: KeyGroupRange | None, written_as: StateSchema | None) -> DataFrame:
        rows = read_parquet(self._scope.session, paths, self._schemas.get(written_as))
        self._schemas[written_as] = rows.schema
        if written_as is not None:
            rows = evolved(rows, written_as, self._layout.plan.state_schema)
        # Without keys there is only one subtask, which owns all rows.
        return self._groups.within(rows, key_groups) if key_groups is not None and self._groups.keys else rows

    def write(
        self, parts: Sequence[tuple[str, Unwritten[DataFrame]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        for state_id, part in parts:
            yield self._write(part, state_id, savepoint)

    def _write(self, part: Unwritten[DataFrame], state_id: str, savepoint: str | None) -> SharedStateHandle:
        filesystem, descriptor = self._filesystem, self._descriptor
        job = f"{descriptor.checkpoint_directory}/{descriptor.job_id}"
        folder = filesystem.qualified(f"{savepoint or f'{job}/shared'}/{state_id}")
        rows = sum(reading.segment.rows for reading in part.readings)
        try:
            state = self.read(part.readings).coalesce(rows // _ROWS_PER_FILE + 1)
            write_checkpoint_files(filesystem, state, folder)
            files = self._files.seal(folder, savepoint or job)
        except BaseException:
            filesystem.delete(folder)
            raise
        return SharedStateHandle(
            state_id=state_id,
            path=folder,
            rows=rows,
            size_bytes=sum(file.size_bytes for file in files),
            key_groups=self.owned,
            files=files,
        )

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        """Return True if the batches fit into the attempt's memory. Otherwise the checkpoint is read to disk."""
        return self._memory.has_room_for(sum(map(self._store.memory_bytes, batch_ids)))

    def hold(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        super().hold(batch_ids, holder)
        if holder is None:
            for batch_id in batch_ids:
                self._memory.reserve(batch_id, self._store.memory_bytes(batch_id))

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        super().release(batch_ids, holder)
        if holder is None:
            self._memory.release(batch_ids)

    def in_background(self, work: Callable[[], None]) -> None:
        """Merge at once, because windows that fire during a background merge would remove segments."""
        work()


def evolved(rows: DataFrame, was: StateSchema, now: StateSchema) -> DataFrame:
    columns, before = evolved_columns(was, now), set(stored_values(was).values())
    types = dict(zip(columns, columns_of(now.columns).values(), strict=True))
    values = (
        (F.lit(None) if column is None else F.col(quoted(column))).cast(types[name]).alias(name)
        for name, column in columns.items()
    )
    return rows.select(*(F.col(quoted(name)) for name in rows.columns if name not in before), *values)


def gathered(rows: DataFrame, readings: Sequence[Reading[DataFrame]]) -> DataFrame:
    """Return rows of segments. Few rows are in one partition, which is merged without a shuffle."""
    return rows.coalesce(1) if sum(reading.segment.rows for reading in readings) <= _ROWS_OF_ONE_CORE else rows


def _in_ms(micros: Any) -> int:
    return 0 if micros is None else in_ms(int(micros))
